"""Grafana dashboards as code: `make dashboards` renders them into the JSON files beside this."""
