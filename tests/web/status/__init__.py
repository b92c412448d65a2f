"""The status page: what it says and draws."""
