"""Small worlds: all that can happen to two containers in a few steps, through ledger and oracle."""
