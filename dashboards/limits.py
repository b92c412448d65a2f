"""What the alerts' values file says that the dashboards need too, so that both draw one line."""

from __future__ import annotations

from typing import Final

from alerts import render, values
from alerts.terms import Terms

VALUES: Final = values.load()
LABELS, LINKS, LIMITS = VALUES.labels, VALUES.links, VALUES.thresholds
# The share of lifecycle events that may be missed.
ALLOWED: Final = round(1 - VALUES.slo.objective / 100, 9)
# Names of recording rules.
RECORDS: Final = tuple(
    Terms(VALUES).text(record.name) for each in render.records(VALUES).values() for record in each
)
