"""Recordings of all that a ledger was told: format, writer, reader, replay."""
