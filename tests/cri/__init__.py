"""The boundary to the runtime: its socket, its calls, its messages, the preflight."""
