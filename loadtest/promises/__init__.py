"""The speeds and the exactness that the project promises, each in one command."""
