"""A real Apache Kafka on this machine without Docker: start, stop, look, create the topics."""
