"""Compute the expected output of a run: the truth file, and the oracles behind it."""
