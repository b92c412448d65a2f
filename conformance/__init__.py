"""Tests a real container runtime for the properties of events that its clients rely on."""
