"""The expected output of a run: the truth file, and the oracles that compute it."""
