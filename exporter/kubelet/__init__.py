"""The kubelet: its metrics, Evented PLEG's state, and who may use an exclusive stream."""
