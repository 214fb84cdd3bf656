"""Test programs and jobs on a real broker."""
