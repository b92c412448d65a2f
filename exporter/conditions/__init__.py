"""The conditions of a node: what can be said of it, and when it holds; pure."""
