"""Tests of what ships in alerts/."""
