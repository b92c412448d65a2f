"""Pauses, rates and turns."""
