"""Provide the commands with which operators look at alerts and act on them."""
