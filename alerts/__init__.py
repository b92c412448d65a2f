"""Alerts and recording rules as data, and what writes them: `make generate`."""
