"""Test what needs a Docker engine: the image, the Compose file, a broker as a container."""
