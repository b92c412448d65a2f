"""Recordings of the facts that a ledger took: format, writer, pseudonyms."""
