"""The conditions of a node: when each holds, and what to say about it. No I/O, no clock."""
