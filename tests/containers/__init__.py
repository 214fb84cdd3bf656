"""Tests that need a Docker engine: the image, the Compose file, a broker as a container."""
