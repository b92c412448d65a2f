"""The HTTP face: metrics, health and the landing page. Reads state, changes nothing."""
