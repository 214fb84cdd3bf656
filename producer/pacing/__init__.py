"""When each record is due, how the rate changes, and sending on that schedule."""
