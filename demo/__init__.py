"""Run the whole pipeline on this machine, without Docker, and judge its outputs."""
