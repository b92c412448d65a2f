"""Mutation testing: which small changes of the pure core the quick tests notice."""
