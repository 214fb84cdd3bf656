"""Rules: which readings become alerts."""
