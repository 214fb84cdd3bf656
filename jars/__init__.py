"""Java parts from their published artifacts: each named in a lock file with its SHA-256, fetched once."""
