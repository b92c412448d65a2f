"""The commands, as an operator runs them."""
