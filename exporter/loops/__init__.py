"""The endless tasks: they wait, stamp times and log; what it means the core decides."""
