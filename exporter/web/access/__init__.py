"""Access control for pages: configuration, TLS, passwords, limits."""
