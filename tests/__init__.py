"""The tests of shadow-pleg."""
