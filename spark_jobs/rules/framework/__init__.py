"""What the rules share: rack metadata, evidence, alert records, state in Python or in Spark."""
