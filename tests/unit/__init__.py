"""Test what needs neither Java nor a broker."""
