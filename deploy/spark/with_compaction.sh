#!/bin/bash
# Run a command, and beside it the archive's compaction, once an hour:
#     with_compaction.sh --archive=FOLDER COMMAND ...
# The first compaction begins when the archive exists. One that fails is made again after a minute,
# the next after two, and so on up to ten. From the second failure in a row until a success a file
# says so, which the container's health check looks for. The command replaces this shell, so that it
# gets the container's signals and the container ends with it. A compaction that is killed then
# loses nothing.
failures=0 failed=${TMPDIR:-/tmp}/compaction-failed
until [ -d "${1#--archive=}/landing" ]; do
  sleep 5
done && while :; do
  if python -m spark_jobs compact "$1"; then
    failures=0
    rm -f "$failed"
    sleep 3600
  else
    failures=$((failures + 1))
    minutes=$((failures < 10 ? failures : 10))
    said="Compactions that have failed in a row: $failures. The next one begins in $minutes min."
    echo "$said" >&2
    [ "$failures" -eq 1 ] || echo "$said" >"$failed"
    sleep $((60 * minutes))
  fi
done &
exec "${@:2}"
