"""The contract (`docs/contract.md`) in code: records, Spark schemas, topics, rules, settings."""
