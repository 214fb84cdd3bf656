"""State a second time, in the tests' own words, the figures that each lesson must print."""
