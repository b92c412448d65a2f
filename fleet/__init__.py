"""`shadow-pleg report`: a go or no-go for a fleet, with evidence, from Prometheus.

It asks Prometheus over HTTP and knows no CRI; the observer does not need it.
"""
