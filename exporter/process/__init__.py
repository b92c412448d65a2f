"""This process's own health: log, lag, watchdog."""
