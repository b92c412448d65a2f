"""The HTTP interface: metrics, health and the status page. It only reads the node's state."""
