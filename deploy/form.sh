#!/bin/sh
# Print the target of make that has made the containers, whether or not they run: up, up-cluster or
# up-brokers; nothing where there are none. COMPOSE is the Docker Compose command.
made=$(${COMPOSE:-docker compose} --profile '*' ps --all --services) || exit
has() {
  echo "$made" | grep -qx "$1"
}
if has kafka-1; then
  echo up-brokers
elif has cluster-micro-batch; then
  echo up-cluster
elif has alerting; then
  echo up
fi
