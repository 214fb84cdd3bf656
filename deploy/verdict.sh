#!/bin/sh
# Stop the producers of the containers that run, and compare all outputs with what was sent. COMPOSE
# is the Docker Compose command, THREE_BROKERS the variables of a start on three brokers.
# Exit status: that of the verdict.
compose=${COMPOSE:-docker compose}
running=$($compose --profile '*' ps --services --status running) || exit
runs() {
  echo "$running" | grep -qx "$1"
}
if ! runs alerting; then
  echo "The containers do not run: start them with make up." >&2
  exit 1
fi
! runs kafka-1 || export ${THREE_BROKERS:?}
! runs cluster-micro-batch || export ARCHIVE_SUFFIX=cluster
$compose stop --timeout 60 producer clickstream || exit
$compose --profile verdict run --rm --no-deps verdict
