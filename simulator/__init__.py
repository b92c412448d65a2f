"""A container runtime on a real CRI socket, with configurable life and losses.

`demo`, `simulate` and the tests run the exporter against it; the observer does not need it.
"""
