"""Define what the rules share: rack metadata, evidence, alert records, state in Python or Spark."""
