"""Analyse what users saw, clicked and did."""
