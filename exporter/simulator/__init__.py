"""A container runtime whose life and losses are chosen, on a real CRI socket.

Here: what `demo`, `simulate` and the tests run the exporter against. Not here:
anything the exporter needs on a node; nothing else in `exporter` imports this.
"""
