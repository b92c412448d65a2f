"""What is known of this node."""
