#!/bin/sh
# Start the containers by `docker compose up ARGUMENTS`, show their first alerts, and the address of
# the dashboard. COMPOSE is the Docker Compose command, FORM the target of make: containers that
# another one has made are removed first, and their data stays.
compose=${COMPOSE:-docker compose}
made_by=$(sh deploy/form.sh) || exit
$compose build topic-init || exit # all services share the image
if [ -n "$made_by" ] && [ "$made_by" != "${FORM:?}" ]; then
  echo "Stopping the containers of make $made_by; their data stays."
  $compose --profile '*' down || exit
fi
DASHBOARD_HOST_PORT=$(sh deploy/dashboard_port.sh) || exit
export DASHBOARD_HOST_PORT
STARTED=$(date -u +%Y-%m-%dT%H:%M:%SZ)
export STARTED
$compose up --detach --wait --remove-orphans "$@" || exit
sh deploy/first_alerts.sh || exit
published=$($compose port dashboard 8000) || exit
echo "Running. Dashboard: http://localhost:${published##*:}/. Alerts: make logs. Stop: make down."
