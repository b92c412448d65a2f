"""The kubelet: what it shows of its pods."""
