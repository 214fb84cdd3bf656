"""Make a world, draw streams, apply faults, publish events, and know the expected output."""
