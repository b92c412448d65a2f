"""What is known of this node: state and counts, the last 15 minutes, the log of losses."""
