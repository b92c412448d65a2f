"""Recordings of everything that a ledger was told: format, writer, reader, replay."""
