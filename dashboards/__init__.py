"""Grafana dashboards as code: `make dashboards` renders them into the JSON files beside this.

Here: what the dashboards show. Not here: the names of metrics (`exporter/metrics.py` has ours) and
the thresholds (`alerts/values.yaml`, the same as the alerts').
"""
