"""Tests of the pure core: no I/O, no clock; facts go in, findings come out."""
