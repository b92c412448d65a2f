"""The command `conformance`: its judges, and runs on real containerds."""
