"""Teach Structured Streaming in small programs, each with its data and its expected output."""
