"""The simulated runtime, over its socket and by itself."""
