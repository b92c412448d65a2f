"""The HTTP interface: metrics, health and the status page. Reads state, changes nothing."""
