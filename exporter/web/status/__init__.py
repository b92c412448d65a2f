"""The status page: state, timeline, losses, live updates."""
