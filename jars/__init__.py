"""The Java parts: published jars, each locked by name, version and SHA-256, and fetched once."""
