"""What can be said of a node."""
