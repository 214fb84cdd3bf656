#!/bin/sh
# Start a Python worker without Spark's own files on Python's path. PySpark is installed, too, and
# compiled. In pyspark.zip Python would compile it again at each start, and it would read the long
# lists of what the files hold: half of a worker's start.
set -f
paths=
IFS=:
for path in $PYTHONPATH; do
  case $path in
    */pyspark.zip | */py4j-*.zip | */spark-core_*.jar) ;;
    *) paths=$paths${paths:+:}$path ;;
  esac
done
export PYTHONPATH="$paths"
exec "${WORKER_INTERPRETER:-python}" "$@"
