"""Grafana dashboards as code: `make generate` renders them into the JSON files beside this."""
