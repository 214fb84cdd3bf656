"""Tests that need neither Java nor a broker."""
