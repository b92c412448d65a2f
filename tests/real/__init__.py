"""The exporter as it is shipped, in a process of its own, against real containerd."""
