"""Log each alert exactly once, track incidents, notify people, and take operators' commands."""
