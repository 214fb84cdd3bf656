"""Document the project; `docs.commands` generates one of the pages."""
