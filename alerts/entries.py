"""What a rule is before it is written: rows of conditions, `source.yaml`, what the report keeps.

Texts are templates with `<< >>` around what comes from `Terms`: the values, and the words of
`source.yaml` that are made of them. A template that uses a word which is not there does not render.
`{{ }}` stays for Prometheus.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Final, Literal

import jinja2
import msgspec
import promql_parser

from alerts.values import Duration, Grave, Section, Thresholds, Values, seconds
from exporter.conditions.account import WINDOW_SECONDS
from exporter.conditions.catalogue import BY_NAME, CONDITIONS
from exporter.conditions.condition import Condition, Reliance
from exporter.conditions.condition import Severity as Weight
from exporter.metrics.families import NODE_CONDITION
from exporter.runtimes.kubelets import FIRST_HINTED, REPLACED
from promql.series import BY_DESIGN, IN_OPEN_STREAM, KEPT, KUBELET, KUBELET_KEPT, STREAMING, Kept
from promql.text import TEMPLATES, join

# The report of a long window reads a sample in five minutes of each process.
REPORT_INTERVAL: Final = "5m"
# Each alert of a node is held back while this one names it (`alerts.render`).
MANY: Final = "ShadowPlegManyNodes"
# For so long counts what was scraped last of a condition: two failed scrapes, a minute apart, or a
# new pod that is not scraped yet, end no alert that is pending. A state's alert waits for as much
# longer: one that was seen right before its exporter went away does not fire.
HOLD: Final = "3m"
# How long what is judged by counts must hold; its window is long enough for what goes on.
_COUNTED: Final = "1m"
# From what happens to its condition, at most: a relist, the grace, and the next look.
_JUDGED: Final = "50s"
# The node's condition that makes a loss grave where a kubelet takes events as hints.
_MOST: Final = BY_NAME["most_exits_lost"].name
_GRAVE: Final = {
    Weight.LOSSES: "(<< reliance >> == 2 or << reliance >> == 1"
    f" and on (<< by_node >>) << holds('{_MOST}') >>)",
    Weight.GATED: "<< reliance >> > 0",
}
_OWED: Final = {Reliance.ANY: "", Reliance.GATE_ON: "> 0", Reliance.ALONE: "== 2"}
# The other names of counters of the kubelet: the later one (kubernetes/kubernetes#138417), and the
# one that OpenTelemetry's receiver makes of the first by appending _total.
RENAMED: Final = {
    "kubelet_pleg_discard_events": ("kubelet_pleg_discard_events_total",),
    "kubelet_evented_pleg_connection_error_count": (
        "kubelet_evented_pleg_connection_error_total",
        "kubelet_evented_pleg_connection_error_count_total",
    ),
    "kubelet_evented_pleg_connection_success_count": (
        "kubelet_evented_pleg_connection_success_total",
        "kubelet_evented_pleg_connection_success_count_total",
    ),
}
# As the recording rule has it of kubelets that are scraped.
RELIANCE: Final = {"replace": 2, "hint": 1, "ignore": 0}
# `losses`, `gated`: by what the kubelet does with events (exporter.conditions.condition). `same`:
# that of the alerts that it counts.
Severity = Grave | Literal["losses", "gated", "same"]


class Level(Enum):
    """What one alert is about."""

    NODE = "node"
    CLUSTER = "cluster"


class Record(Section, frozen=True):
    """A recording rule; each node or cluster has at most `series` of it.

    `about`: empty of those that only `report` reads, which are one row of the table.
    """

    name: str
    about: str
    expr: str
    series: int = 1
    quantile: str = ""


class Alert(Section, frozen=True, rename={"hold": "for", "keep": "keep_firing_for"}):
    """An alert, as it is unless the values say otherwise.

    `after`: from the problem to the condition, at most, beside the next scrape. `hold`: for how
    long that must be true; `keep`: for how long it fires on. `conditions`: those of a node for any
    of which it fires.
    """

    name: str
    summary: str
    description: str
    expr: str
    severity: Severity
    hold: Duration = "0s"
    keep: Duration = "5m"
    level: Level = Level.NODE
    after: str = "0s"
    conditions: tuple[str, ...] = ()


class Inhibition(Section, frozen=True):
    """While any of `by` fires, none of `muted` is delivered for the `same` node or cluster.

    `alike`: those of the same severity only.
    """

    by: list[str]
    muted: list[str]
    same: Level
    alike: bool = False


class Source(Section, frozen=True):
    """The whole file: words, records by group, and alerts."""

    words: dict[str, str]
    records: dict[str, list[Record]]
    alerts: list[Alert]
    inhibitions: list[Inhibition]


SOURCE: Final = msgspec.yaml.decode(
    Path(__file__).with_name("source.yaml").read_bytes(), type=Source
)


def _rows() -> dict[str, list[Condition]]:
    """Rows by alert, the most urgent alert first."""
    found: dict[str, list[Condition]] = {}
    for row in CONDITIONS:
        if row.alert:
            found.setdefault(f"ShadowPleg{row.alert}", []).append(row)
    return found


def _of_rows(name: str, rows: list[Condition]) -> Alert:
    """The alert of these rows: what the first one says, for as long as the slowest one takes."""
    first, names = rows[0], [row.name for row in rows]
    expr = f"<< holds('{'|'.join(names)}') >>"
    if owed := _OWED[first.reliance]:
        expr += f" and on (<< by_node >>) << reliance >> {owed}"
    if grave := _GRAVE.get(first.severity):
        expr = (
            f'label_replace({expr} and on (<< by_node >>) {grave}, "severity",'
            ' "<< severity.relied_on >>", "", "") or on (<< by_node >>)'
            f' label_replace({expr}, "severity", "<< severity.otherwise >>", "", "")'
        )
    lasting = [row.lasting for row in rows if row.lasting is not None]
    hold = f"{(max(lasting) + seconds(HOLD)) / 60:.0f}m" if lasting else _COUNTED
    # Half of the exits that a window holds must be late.
    after = f"{WINDOW_SECONDS / 2:.0f}s" if name == "ShadowPlegExitsAnnouncedLate" else _JUDGED
    return Alert(
        name,
        f"{'; or: '.join(row.headline for row in rows)}.",
        f"{_todos(rows)} That is << on_node >>, condition {' or '.join(names)}: the page of its"
        " shadow-pleg has the numbers.",
        expr,
        first.severity.value,
        hold,
        after=after,
        conditions=tuple(names),
    )


def _todos(rows: list[Condition]) -> str:
    """What to do, by condition if that differs."""
    texts = {_todo(row): row.name for row in reversed(rows)}
    if len(texts) == 1:
        return _todo(rows[0])
    return " ".join(f"{name}: {text}" for text, name in reversed(texts.items()))


def _todo(row: Condition) -> str:
    """What to do: first where no kubelet uses events, which is nearly everywhere."""
    if row.reliance is not Reliance.ANY:
        return f"{row.relied[0].upper()}{row.relied[1:]}."
    first = f" But where the kubelet's gate EventedPLEG is on, first {row.relied}."
    return f"{row.todo}.{first if row.relied else ''}"


def _grave(alert: Alert) -> bool:
    return alert.severity in {"critical", *(weight.value for weight in _GRAVE)}


def _inhibitions(alerts: Iterable[Alert]) -> Iterator[Inhibition]:
    """What holds each row's alert back: what all of its rows are part of."""
    named, muted = {alert.name: alert for alert in alerts}, dict[tuple[str, bool], list[str]]()
    for name, rows in _rows().items():
        part_of = [{f"ShadowPleg{BY_NAME[of].alert}" for of in row.part_of} for row in rows]
        for by in sorted(set.intersection(*part_of)):
            # What is no page holds back no page.
            muted.setdefault((by, _grave(named[name])), []).append(name)
    for (by, alike), names in muted.items():
        yield Inhibition([by], names, Level.NODE, alike)


# What the alerts of conditions read, recorded right before.
HELD: Final = Record(
    "<< condition >>",
    "1 for each condition that held in the last scrape.",
    "max by (<< by_node >>, condition)"
    " (last_over_time(<< gauge >>{<< exporter >>}[<< hold >>])) == 1",
    series=len(CONDITIONS),
)
_OF_ROWS: Final = [_of_rows(name, rows) for name, rows in _rows().items()]
ALERTS: Final = (*_OF_ROWS, *SOURCE.alerts)
INHIBITIONS: Final = (*_inhibitions(_OF_ROWS), *SOURCE.inhibitions)


def slo(window: str) -> Record:
    """The ratio that the budget is for, over a longer window made of short ones.

    The average of what is recorded: of 5 000 nodes, days of raw series are not affordable.
    """
    return Record(
        f"shadow_pleg:cluster:slo_missed_ratio:avg{window}",
        "relied_lost / relied_owed.",
        f"avg_over_time(<< relied_lost >>[{window}])"
        f" / (avg_over_time(<< relied_owed >>[{window}]) > 0)",
    )


def _kept(series: Kept) -> Record:
    """Counters and shares of one process each (its `instance`), with the labels that are read."""
    if series.how == "sum":
        more = f"'{join(*series.by)}', '{series.matchers}'"
        expr = f"<< snapshot('{series.scraped}', {more}) >>"
    else:
        of = f"{series.scraped}{{<< exporter >>, {series.matchers}}}[5m]"
        # A process has one series of each, but for states, which exclude each other.
        over = {"avg5m": f"avg_over_time({of})", "last5m": f"last_over_time({of})"}[series.how]
        expr = f"sum by (<< by_process >>{''.join(f', {each}' for each in series.by)}) ({over})"
    return Record(series.recorded, "", expr, series.series)


REPORT: Final = (
    *map(_kept, KEPT),
    Record(
        KUBELET_KEPT,
        "1 where a kubelet is scraped.",
        f"group by (<< by_node >>, job) (last_over_time({KUBELET}{{<< kubelet >>}}[5m]))",
    ),
)


def compiled(words: Mapping[str, str]) -> jinja2.Template:
    """Templates by word, as one that defines them all; a word with arguments is a macro."""
    kinds = {word: "macro" if "(" in word else "set" for word in words}
    return TEMPLATES.from_string(
        "".join(f"<% {kinds[it]} {it} %>{text}<% end{kinds[it]} %>" for it, text in words.items())
    )


_WORDS: Final = compiled(SOURCE.words)


class Terms:
    """Renders templates with the words of one set of values."""

    def __init__(self, values: Values) -> None:
        self._values = values
        numbers = {name: getattr(values.thresholds, name) for name in Thresholds.__struct_fields__}
        numbers["objective"] = values.slo.objective
        given: dict[str, object] = {
            "exporter": values.selectors.exporter,
            "kubelet": values.selectors.kubelet,
            "labels": values.labels,
            "w": values.windows,
            "t": {name: f"{number:g}" for name, number in numbers.items()},
            "slo": values.slo,
            "severity": values.losses,
            "kubelets": {
                "first_hinted": FIRST_HINTED,
                # For a negated class, Prometheus goes through all of Unicode at each evaluation.
                "trusting": f"v1[.]({'|'.join(map(str, REPLACED))})[.+-].*",
                "assumed": RELIANCE.get(values.kubelets, values.kubelets),
            },
            "recording": values.intervals.recording,
            "gauge": NODE_CONDITION.name,
            "hold": HOLD,
            "in_open_stream": IN_OPEN_STREAM,
            "by_design": BY_DESIGN,
            "streaming": STREAMING,
            "names": {metric: (metric, *others) for metric, others in RENAMED.items()},
            "join": join,
            "seconds": seconds,
        }
        self._words = given | vars(_WORDS.make_module(given))

    def text(self, template: str, **more: str) -> str:
        """A template's text, in one line."""
        rendered = TEMPLATES.from_string(template).render(self._words | more)
        return " ".join(rendered.split())

    def promql(self, template: str, **more: str) -> str:
        """A template's expression in the canonical form of a PromQL parser; ValueError if none."""
        written = self.text(template, **more)
        try:
            return promql_parser.parse(written).prettify()
        except ValueError as error:
            raise ValueError(f"{error}: {written}") from None

    def dashboard(self, level: Level) -> str:
        """The address of the dashboard of what an alert is about."""
        links, labels = self._values.links, self._values.labels
        cluster = f"?var-cluster={{{{ $labels.{labels.cluster} }}}}"
        if level is Level.CLUSTER:
            return f"{links.dashboards}/d/{links.fleet_uid}{cluster}"
        node = f"&var-node={{{{ $labels.{labels.node} }}}}"
        return f"{links.dashboards}/d/{links.node_uid}{cluster}{node}"
