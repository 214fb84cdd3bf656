"""Decide which readings become alerts."""
