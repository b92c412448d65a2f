"""All surfaces beside each other: page, condition, alerts, dashboards and report."""
