"""Keep the state of incidents, and decide when people are notified."""
