"""Test the dashboard in a real browser, fed through a real broker only."""
