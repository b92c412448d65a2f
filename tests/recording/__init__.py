"""Recordings: written, read, redacted, replayed."""
