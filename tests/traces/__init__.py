"""Recordings of real runtimes, and what the ledger makes of them."""
