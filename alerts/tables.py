"""The tables of README.md: alerts, inhibitions, recording rules and what they cost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from alerts.entries import ALERTS, INHIBITIONS, MANY, Level, Record
from alerts.render import fires_within, records
from alerts.terms import Terms
from alerts.values import Grade, Values

NODES: Final = 5_000


def readme(values: Values, text: str) -> str:
    """A page with its tables, each between its markers, replaced by new ones."""
    for name, new in (
        ("alerts", _alerts_table(values)),
        ("inhibitions", _inhibitions_table()),
        ("records", _records_table(values)),
    ):
        between = re.compile(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
        text = between.sub(lambda found, new=new: found[1] + new + found[2], text)  # type: ignore[misc] # a default binds it
    return text


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n"


def graded(grade: Grade, values: Values) -> str:
    """The severity that an alert has, or the two that it may have."""
    both = f"{values.losses.relied_on} or {values.losses.otherwise}"
    return both if grade.severity == "losses" else grade.severity


def _alerts_table(values: Values) -> str:
    rows = []
    for alert in ALERTS:
        grade = values.alerts[alert.name]
        link = f"[{alert.name}](../docs/runbooks/{alert.name}.md)"
        within = _duration(fires_within(alert, values))
        rows.append((link, graded(grade, values), grade.hold, within, alert.summary))
    return _table(("alert", "severity", "for", "fires within", "says"), rows)


def _duration(minutes: int) -> str:
    days, rest = divmod(minutes, 24 * 60)
    hours, rest = divmod(rest, 60)
    return "".join(f"{n}{unit}" for n, unit in ((days, "d"), (hours, "h"), (rest, "m")) if n)


def _inhibitions_table() -> str:
    rows = [
        (
            ", ".join(each.by),
            ", ".join(each.muted),
            each.same.value + (" and severity" if each.alike else ""),
            each.why,
        )
        for each in INHIBITIONS
    ]
    held = "the alert that it names; itself, naming what that holds back"
    rows.append((MANY, held, f"{Level.CLUSTER.value} and severity", "One for all nodes."))
    return _table(("while this fires", "this is held back", "of the same", "because"), rows)


def _records_table(values: Values) -> str:
    terms = Terms(values)
    groups = records(values)
    entries = [record for group in groups.values() for record in group]
    rows = [
        (f"`{terms.text(record.name)}`{_quantile(record)}", str(record.series), record.about)
        for record in entries
    ]
    per_cluster = sum(record.series for record in groups["cluster"])
    per_node = sum(record.series for record in entries) - per_cluster
    total = per_node * NODES + per_cluster
    said = (
        f"\nAt most {per_node} series a node and {per_cluster} a cluster:"
        f" {total:,} for {NODES:,} nodes.\n".replace(",", " ")
    )
    return _table(("recording rule", "series, at most", "meaning"), rows) + said


def _quantile(record: Record) -> str:
    return f" {record.quantile}" if record.quantile else ""
