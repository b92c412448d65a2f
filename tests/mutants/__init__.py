"""Mutation testing: which small changes of the pure core its tests notice."""
