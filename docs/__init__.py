"""The documentation, and the program that generates one of its pages."""
