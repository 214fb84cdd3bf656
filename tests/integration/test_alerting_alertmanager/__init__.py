"""Tests of the webhook channel with a real Alertmanager."""
