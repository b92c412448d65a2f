"""This process's own health: log, memory, lag, watchdog."""
