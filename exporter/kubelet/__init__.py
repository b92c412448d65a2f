"""The kubelet: its metrics, what they say of Evented PLEG, and whether a shared stream is ours."""
