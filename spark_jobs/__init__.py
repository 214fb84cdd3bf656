"""Run Structured Streaming jobs: one file or small folder per question, and what they share."""
