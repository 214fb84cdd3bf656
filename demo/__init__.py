"""The whole pipeline on this machine, without Docker, and a verdict on what came out of it."""
