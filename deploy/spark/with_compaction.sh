#!/bin/bash
# Run a command, and beside it the archive's compaction: with_compaction.sh --archive=FOLDER COMMAND ...
# The container ends when the command does; a compaction that is killed loses nothing.
python -m spark_jobs compact --every=1h "$1" &
exec "${@:2}"
