"""The whole pipeline on this machine, without Docker, and a verdict on its outputs."""
