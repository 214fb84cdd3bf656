"""One live page over the output topics: racks, incidents, clickstream and the pipeline itself."""

DEFAULT_PORT = 8000
