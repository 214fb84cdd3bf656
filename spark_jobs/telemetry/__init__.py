"""Compute statistics of what the sensors measure, over windows of event time."""
