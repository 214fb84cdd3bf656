"""The state of incidents, and the policy that decides when people are notified."""
