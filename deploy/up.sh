#!/bin/sh
# Start the containers by `docker compose up ARGUMENTS`, show their first alerts, and the dashboard's
# address. COMPOSE is the Docker Compose command.
compose=${COMPOSE:-docker compose}
$compose build || exit
DASHBOARD_HOST_PORT=$(sh deploy/dashboard_port.sh) || exit
export DASHBOARD_HOST_PORT
$compose up --detach --wait --remove-orphans "$@" || exit
sh deploy/first_alerts.sh || exit
published=$($compose port dashboard 8000) || exit
echo "Running. Dashboard: http://localhost:${published##*:}/. Alerts: make logs. Stop: make down."
