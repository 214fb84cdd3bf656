"""Provide what every job needs: session, Kafka, parsing, checkpoints, triggers, runner."""
