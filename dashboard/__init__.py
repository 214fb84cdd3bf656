"""Show one live page over the output topics: racks, incidents, clickstream and the pipeline."""

DEFAULT_PORT = 8000
