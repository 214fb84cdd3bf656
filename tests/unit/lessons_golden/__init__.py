"""The figures that each lesson must print, stated a second time in the tests' own words."""
