"""What the observer costs, and what it does to the node: measured, never asserted in a test.

`make bench` runs everything here, prints the table and writes `docs/benchmarks.md`.
"""
