"""The endless tasks, against a runtime that really answers."""
