"""What users saw, clicked and did."""
