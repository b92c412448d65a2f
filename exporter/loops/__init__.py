"""The long-running tasks: they wait, take timestamps and log; the core decides what facts mean."""
