"""The kubelet: its metrics, and the state of Evented PLEG."""
