"""What operators and Prometheus see: flags, exit codes, logs, metrics, pages."""
