"""What is known of this node: state and counts, the last quarter of an hour, the log of losses."""
