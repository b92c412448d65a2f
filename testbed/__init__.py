"""Real parts to test against, from Debian's packages: see tests/README.md."""
