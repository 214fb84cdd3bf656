#!/bin/bash
# Run a command, and beside it the archive's compaction:
#     with_compaction.sh --archive=FOLDER COMMAND ...
# The compaction begins when the archive exists. One that ends is started again after a minute. The
# command replaces this shell, so that it gets the container's signals and the container ends with
# it. A compaction that is killed then loses nothing.
until [ -d "${1#--archive=}/landing" ]; do
  sleep 5
done && while :; do
  python -m spark_jobs compact --every=1h "$1"
  echo "The compaction has ended with status $?. It starts again in a minute." >&2
  sleep 60
done &
exec "${@:2}"
