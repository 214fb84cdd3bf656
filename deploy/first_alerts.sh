#!/bin/sh
# Wait for the first alerts of the containers since the time STARTED, and show them. COMPOSE is the
# Docker Compose command.
tries=0
alerts() {
  ${COMPOSE:-docker compose} logs --no-log-prefix --since "${STARTED:?}" alerting 2>/dev/null |
    grep -E 'WARNING|NORMAL' | head -n 5
}
until found=$(alerts) && [ -n "$found" ]; do
  tries=$((tries + 1))
  if [ "$tries" -ge 120 ]; then
    echo "No alert within two minutes: see docker compose ps --all, and the logs." >&2
    exit 1
  fi
  sleep 1
done
echo "$found"
