"""The producer: make a world, draw streams, apply faults, publish, and know the expected output."""
