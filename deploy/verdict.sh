#!/bin/sh
# Stop the producers of the containers, and compare all outputs with what was sent. COMPOSE is the
# Docker Compose command, THREE_BROKERS the variables of a start on three brokers.
# Exit status: that of the verdict.
compose=${COMPOSE:-docker compose}
form=$(sh deploy/form.sh) || exit
case $form in
up) ;;
up-cluster) export ARCHIVE_SUFFIX=cluster CLOSED_WINDOWS=--no-closed-windows ;;
up-brokers) export ${THREE_BROKERS:?} ;;
*)
  echo "There are no containers: start them with make up." >&2
  exit 1
  ;;
esac
$compose stop --timeout 60 producer clickstream || exit
trap 'exit 130' INT
trap 'echo "The producers have ended. Resume: make $form. Stop: make down."' EXIT
$compose --profile verdict run --rm --no-deps verdict
