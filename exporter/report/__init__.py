"""`shadow-pleg report`: from a Prometheus to a go or no-go for a fleet, with the evidence.

Nothing of this is imported before that command runs: `serve` pays nothing for it.
"""
