"""When to try again, how often, and for how long at a time."""
