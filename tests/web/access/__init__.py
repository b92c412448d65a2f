"""Access control: users, certificates, configuration."""
