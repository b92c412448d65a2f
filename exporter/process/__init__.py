"""This process itself: its log, and its event loop."""
