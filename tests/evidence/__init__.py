"""Tests of the flight recorder, of evidence, and of recordings that are replayed."""
