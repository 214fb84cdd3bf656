"""Define the contract (`docs/contract.md`) in code: records, schemas, topics, rules, settings."""
