"""Draw the records of each topic as functions of (seed, number), with the faults applied."""
