"""What the observer costs, and what it does to the node: measured, never asserted in a test."""
