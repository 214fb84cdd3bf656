#!/bin/sh
# Print the port of this machine for the dashboard's container: the wished one, or 0 where that is
# in use, so that Docker chooses a free one. A dashboard that runs keeps its port.
# COMPOSE is the Docker Compose command.
compose=${COMPOSE:-docker compose}
wished=$($compose config |
  sed -n '/^  dashboard:$/,/^  [a-z]/s/^ *published: "\{0,1\}\([0-9]*\).*/\1/p')
now=$($compose port dashboard 8000 2>/dev/null) && now=${now##*:} || now=
if [ "$now" = "$wished" ]; then
  echo "$wished"
  exit
fi
# Only Docker can tell: the port may be in use by another container or by a program outside of them.
said=$($compose run --rm --no-TTY --no-deps --publish "127.0.0.1:$wished:8000" --entrypoint true \
  dashboard 2>&1)
case $said in
*"already in use"* | *"already allocated"* | *"not available"*)
  echo "Port $wished is in use, so the dashboard uses another (DASHBOARD_HOST_PORT= chooses it)." \
    >&2
  echo "${now:-0}"
  ;;
*) echo "$wished" ;;
esac
