"""What a real Alertmanager makes of the notices."""
