"""Test the webhook channel with a real Alertmanager."""
