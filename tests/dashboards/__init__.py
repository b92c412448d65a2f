"""The dashboards: their rules, their queries against real Prometheus, their looks in a browser."""
