#!/bin/sh
# Add the containers of the profile `monitoring` to those that were made, or start those of `make
# up` with them. COMPOSE is the Docker Compose command.
compose=${COMPOSE:-docker compose}
form=$(sh deploy/form.sh) || exit
COMPOSE="$compose --profile monitoring"
export COMPOSE
case $form in
up-*) $COMPOSE up --detach --wait --no-deps prometheus alertmanager grafana ;;
*) FORM=up sh deploy/up.sh ;;
esac
