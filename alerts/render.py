"""From entries and values to files: rules, PrometheusRule, Alertmanager's example, README's tables.

Everything is built as data and dumped by a YAML library; what rules say is in `source.yaml`.
"""

import math
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

import yaml
from msgspec.structs import asdict, astuple, replace

from alerts.entries import (
    ALERTS,
    HELD,
    INHIBITIONS,
    MANY,
    REPORT,
    REPORT_INTERVAL,
    SOURCE,
    Alert,
    Level,
    Record,
    Terms,
    slo,
)
from alerts.values import Grade, Losses, Values, ValuesError, seconds

HEAD: Final = "# Made by `make generate` of values.yaml and source.yaml: change those.\n"
# Severities that an expression finds.
FOUND: Final = ("losses", "gated", "same")
SCRAPES: Final = "60s"
# Of README.md: for so many nodes it says the number of series.
NODES: Final = 5_000
_KEPT: Final = "What `report` reads, of each process: the metric of that name, or a share of time."
Rows = list[tuple[str, ...]]


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, lists indented, nothing aliased."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the library's signature
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - as above
        super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def dump(document: dict[str, Any]) -> str:
    """A document as YAML under a line that says where it comes from."""
    return HEAD + yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True
    )


def records(values: Values) -> dict[str, list[Record]]:
    """Recording rules by group."""
    windows = [slo(window) for window in values.slo.windows]
    cluster = [*SOURCE.records["cluster"], *windows]
    both = {"node": SOURCE.records["node"], "cluster": cluster, "report": [*REPORT]}
    return both | {"alerts": [HELD]}


def groups(values: Values) -> list[dict[str, Any]]:
    """Rule groups as Prometheus reads them; ValuesError if the values name what is no alert.

    All alerts are one group, so that one sees in the same evaluation what was recorded for it, and
    which others fire.
    """
    terms = Terms(values)
    kept = (it for it in _graded(values) if it.name not in values.leave_out)
    alerts = [_alert(terms, it, values) for it in kept]
    evaluated = {"report": REPORT_INTERVAL, "alerts": values.intervals.alerts}
    return [
        {
            "name": f"shadow_pleg.{name}" if name == "alerts" else f"shadow_pleg.recording.{name}",
            "interval": evaluated.get(name, values.intervals.recording),
            "rules": [_record(terms, it) for it in recorded] + alerts * (name == "alerts"),
        }
        for name, recorded in records(values).items()
    ]


def _graded(values: Values) -> list[Alert]:
    """All alerts as the values have them."""
    names = {alert.name for alert in ALERTS}
    for key, named in (("leave_out", values.leave_out), ("alerts", values.alerts)):
        for name in sorted(set(named) - names):
            raise ValuesError(f"{key}: {name}: there is no such alert: remove it")
    return [as_chosen(alert, values) for alert in ALERTS]


def as_chosen(alert: Alert, values: Values) -> Alert:
    """The alert with what the values say of it."""
    chosen = asdict(values.alerts.get(alert.name, Grade()))
    return replace(alert, **{key: value for key, value in chosen.items() if value is not None})


def _record(terms: Terms, record: Record) -> dict[str, Any]:
    more = {"quantile": record.quantile} if record.quantile else {}
    rule: dict[str, Any] = {
        "record": terms.text(record.name),
        "expr": terms.promql(record.expr, **more),
    }
    return rule | ({"labels": more} if more else {})


def _alert(terms: Terms, alert: Alert, values: Values) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": terms.promql(alert.expr),
        "for": alert.hold,
        "keep_firing_for": alert.keep,
        **({} if alert.severity in FOUND else {"labels": {"severity": alert.severity}}),
        "annotations": {
            "summary": alert.summary,
            "description": terms.text(alert.description),
            "runbook_url": f"{values.links.runbooks}/{alert.name}.md",
            **({"dashboard_url": terms.dashboard(alert.level)} if values.links.dashboards else {}),
        },
    }


def fires_within(alert: Alert, values: Values) -> int:
    """Minutes from a problem to its alert, at most: with a scrape, a recording, an evaluation."""
    intervals = values.intervals
    took = (
        *(Terms(values).text(alert.after), as_chosen(alert, values).hold),
        *(SCRAPES, intervals.recording, intervals.alerts),
    )
    return math.ceil(sum(map(seconds, took)) / 60)


def prometheus_rule(values: Values) -> str:
    """All groups as an object for prometheus-operator."""
    labels = {"app.kubernetes.io/name": "shadow-pleg", "app.kubernetes.io/part-of": "shadow-pleg"}
    return dump(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {"name": "shadow-pleg", "labels": labels},
            "spec": {"groups": groups(values)},
        }
    )


def for_chart(values: Values) -> str:
    """All groups with names like %many_nodes% and %critical% for what the chart's user may choose.

    Beside them, the thresholds in use.
    """
    numbers = asdict(values.thresholds)
    # No rule has such a number, and as short as they are they break no line.
    marks = {name: number for number, name in enumerate(("kubelets", *numbers), 900)}
    chosen = (as_chosen(alert, values) for alert in ALERTS)
    grades = {
        it.name: Grade(f"%{it.severity}%", it.hold, it.keep)  # type: ignore[arg-type]
        for it in chosen
        if it.severity not in FOUND
    }
    marked = replace(
        values,
        thresholds=replace(values.thresholds, **{name: marks[name] for name in numbers}),
        losses=Losses(*map("%{}%".format, astuple(values.losses))),  # type: ignore[arg-type]
        alerts=values.alerts | grades,
        kubelets=str(marks["kubelets"]),
    )
    text = dump({"groups": groups(marked)})
    for name, mark in marks.items():
        text = re.sub(rf"\b{mark}\b", f"%{name}%", text)
    used = {name: number for name, number in numbers.items() if f"%{name}%" in text}
    return dump({"thresholds": used}) + text.removeprefix(HEAD)


def alertmanager(values: Values) -> str:
    """An example configuration: a route for each severity, and all inhibitions."""
    return dump(
        {
            "route": {
                "receiver": "warning",
                "group_by": ["alertname", values.labels.cluster],
                "group_wait": f"{group_wait(values)}s",
                "group_interval": "5m",
                "repeat_interval": "12h",
                "routes": [
                    {"receiver": severity, "matchers": [f'severity="{severity}"']}
                    for severity in ("critical", "info")
                ],
            },
            "inhibit_rules": inhibit_rules(values),
            "receivers": [
                {"name": name, "webhook_configs": [{"url": f"http://{name}.invalid/"}]}
                for name in ("critical", "warning", "info")
            ],
        }
    )


def group_wait(values: Values) -> int:
    """Seconds in which the alert that inhibits the most others fires, too: `MANY`.

    Nodes that are scraped within a minute are seen by three evaluations in a row, if each is 30 s.
    """
    (many,) = (as_chosen(alert, values) for alert in ALERTS if alert.name == MANY)
    return sum(map(seconds, (SCRAPES, values.intervals.alerts, many.hold)))


def inhibit_rules(values: Values) -> list[dict[str, Any]]:
    """The inhibitions as Alertmanager reads them."""
    labels, many = values.labels, f'alertname="{MANY}"'
    equal = {Level.NODE: [labels.cluster, labels.node], Level.CLUSTER: [labels.cluster]}
    alike = {False: [], True: ["severity"]}
    rules: list[tuple[list[str], list[str], list[str]]] = [
        ([_one_of(each.by)], [_one_of(each.muted)], equal[each.same] + alike[each.alike])
        for each in INHIBITIONS
    ]
    rules += [
        # What is held back on a node is held back on many.
        (
            [many, _one_of(each.by, "problem")],
            [many, _one_of(each.muted, "problem")],
            equal[Level.CLUSTER] + alike[each.alike],
        )
        for each in INHIBITIONS
        if each.same is Level.NODE
    ]
    rules += [
        ([many, f'problem="{it.name}"'], [f'alertname="{it.name}"'], [labels.cluster, "severity"])
        for it in ALERTS
        if it.level is Level.NODE
    ]
    keys = ("source_matchers", "target_matchers", "equal")
    return [dict(zip(keys, rule, strict=True)) for rule in rules]


def _one_of(names: list[str], label: str = "alertname") -> str:
    return f'{label}="{names[0]}"' if len(names) == 1 else f'{label}=~"{"|".join(names)}"'


def readme(values: Values) -> Iterator[tuple[str, Rows, str]]:
    """Each table of README.md: its section, its rows with the head, and what is said after it."""
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
    recorded = records(values)
    entries = [record for group in recorded.values() for record in group]
    own = [record for record in entries if record.about]
    alike = groupby(own, key=lambda it: (it.about, it.series, it.quantile))
    rows: Rows = [
        (f"{_names(terms, same)} {quantile}".rstrip(), str(number), terms.text(about))
        for (about, number, quantile), same in alike
    ]
    kept = sum(record.series for record in entries if not record.about)
    rows.append(("`shadow_pleg:process:*`", str(kept), _KEPT))
    per_cluster = sum(record.series for record in recorded["cluster"])
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
