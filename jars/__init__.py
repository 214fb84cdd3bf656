"""Fetch the published jars once, each locked by name, version and SHA-256."""
