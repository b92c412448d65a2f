"""`shadow-pleg report`: a go or no-go for a fleet, with evidence, from Prometheus.

Imported only when that command runs, so `serve` pays nothing for it.
"""
