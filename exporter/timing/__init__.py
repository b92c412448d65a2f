"""Retry delays, rate limits, and time slices."""
