"""Run tests by cost: `unit` (no Java), `spark` (a local session), `integration` (a real broker)."""
