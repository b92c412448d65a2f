"""The kubelet's own metrics over HTTP: asked for, bounded, and reduced to what is said of PLEG."""
