"""`shadow-pleg report` against a real Prometheus with fleets whose numbers are known."""
