#!/bin/bash
# Run a program, and beside it the archive's compaction: with_compaction.sh --archive=FOLDER PROGRAM ...
# The container ends when the program does; a compaction that is killed loses nothing.
python -m spark_jobs compact --every=1h "$1" &
exec python -m "${@:2}"
