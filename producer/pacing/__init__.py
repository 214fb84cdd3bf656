"""Decide when each record is due and how the rate changes, and send on that schedule."""
