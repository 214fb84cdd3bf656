"""Structured Streaming jobs: one file per question; session, Kafka and checkpoints once for all of them."""
