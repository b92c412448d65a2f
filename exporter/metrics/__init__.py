"""What is exported: the families, and the collector that fills them from the node's state."""
