"""Archive, deduplicate and compact the records of topics."""
