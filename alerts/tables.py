"""The tables of README.md: alerts, inhibitions, recording rules and what they cost."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from alerts.entries import ALERTS, INHIBITIONS, MANY, Alert, Level, Record
from alerts.render import FOUND, as_chosen, fires_within, records
from alerts.terms import Terms
from alerts.values import Values

NODES: Final = 5_000
_KEPT: Final = "What `report` reads, of each process: the metric of that name, or a share of time."
Rows = list[tuple[str, ...]]


def readme(values: Values) -> Iterator[tuple[str, Rows, str]]:
    """Each table: its section, its rows with the head, and what is said after it."""
    yield "alerts", *_alerts(values)
    yield "inhibitions", _inhibitions(), ""
    yield "records", *_records(values)


def graded(alert: Alert, values: Values) -> str:
    """The severity that an alert has, or the two that it may have."""
    severity = as_chosen(alert, values).severity
    losses = severity in FOUND and alert.name != MANY
    return f"{values.losses.relied_on} or {values.losses.otherwise}" if losses else severity


def _alerts(values: Values) -> tuple[Rows, str]:
    """In the order of the source; after them the severities, of most alerts without names."""
    rows: Rows = [("alert", "fires within")]
    severities: dict[str, list[str]] = {}
    for alert in ALERTS:
        link = f"[{alert.name}](../docs/runbooks/{alert.name}.md)"
        rows.append((link, _duration(fires_within(alert, values))))
        if alert.name != MANY:
            severities.setdefault(graded(alert, values), []).append(alert.name)
    *few, (most, _) = sorted(severities.items(), key=lambda it: len(it[1]))
    told = "".join(f"{severity.capitalize()}: {', '.join(names)}. " for severity, names in few)
    return rows, f"\n{told}{MANY} has that of the alert that it names. All others: {most}.\n"


def _duration(minutes: int) -> str:
    days, rest = divmod(minutes, 24 * 60)
    hours, rest = divmod(rest, 60)
    return "".join(f"{n}{unit}" for n, unit in ((days, "d"), (hours, "h"), (rest, "m")) if n)


def _inhibitions() -> Rows:
    rows: Rows = [
        ("while this fires", "this is held back", "of the same"),
        *(
            (
                ", ".join(each.by),
                ", ".join(each.muted),
                each.same.value + (" and severity" if each.alike else ""),
            )
            for each in INHIBITIONS
        ),
    ]
    held = "the alert that it names; itself, naming what that holds back"
    rows.append((MANY, held, f"{Level.CLUSTER.value} and severity"))
    return rows


def _records(values: Values) -> tuple[Rows, str]:
    terms = Terms(values)
    groups = records(values)
    entries = [record for group in groups.values() for record in group]
    own = [record for record in entries if record.about]
    alike = groupby(own, key=lambda it: (it.about, it.series, it.quantile))
    rows: Rows = [
        (f"{_names(terms, same)} {quantile}".rstrip(), str(number), terms.text(about))
        for (about, number, quantile), same in alike
    ]
    kept = sum(record.series for record in entries if not record.about)
    rows.append(("`shadow_pleg:process:*`", str(kept), _KEPT))
    per_cluster = sum(record.series for record in groups["cluster"])
    per_node = sum(record.series for record in entries) - per_cluster
    total = per_node * NODES + per_cluster
    said = (
        f"\nAt most {per_node} series a node and {per_cluster} a cluster:"
        f" {total:,} for {NODES:,} nodes.\n".replace(",", " ")
    )
    return [("recording rule", "series, at most", "meaning"), *rows], said


def _names(terms: Terms, entries: Iterable[Record]) -> str:
    """The whole first one; of the others, which mean the same, how they aggregate."""
    first, *others = (terms.text(it.name) for it in entries)
    return ", ".join(f"`{it}`" for it in (first, *(it.rpartition(":")[2] for it in others)))
