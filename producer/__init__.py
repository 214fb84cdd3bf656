"""Makes a world, draws streams, hits them with faults, publishes them, and knows what must come out."""
