"""Real parts to test against: containerd, runc, promtool from Debian's packages (see README.md)."""
