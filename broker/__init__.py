"""Run a real Apache Kafka on this machine without Docker: server and topics."""
