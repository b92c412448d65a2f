"""PromQL that alerts, dashboards and the report share: one formula, one home."""
