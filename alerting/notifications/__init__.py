"""Notices about incidents: their text, their queue, and the channels that deliver them."""
