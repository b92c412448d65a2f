"""Fuzzing: every parser of foreign bytes, with seeds and with all that has broken it."""
