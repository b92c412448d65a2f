"""Recordings: written, read, redacted."""
