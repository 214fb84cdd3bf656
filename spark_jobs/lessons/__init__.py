"""Every idea of Structured Streaming as a small program, with its data, its expected output and what to notice."""
