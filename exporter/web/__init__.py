"""The HTTP face: metrics, health and the status page. Reads state, changes nothing."""
