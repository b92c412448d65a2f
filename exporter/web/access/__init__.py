"""Who may see a page, and how often: configuration, TLS, passwords, limits."""
