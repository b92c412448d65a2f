"""What a rule is before it is written: `source.yaml`, typed, and what the report keeps.

Texts are templates with `<< >>` around what comes from the values and from `alerts.terms`; `{{ }}`
stays for Prometheus.
"""

from enum import Enum
from pathlib import Path
from typing import Final

import msgspec

from alerts.values import Section
from promql.series import KEPT, KUBELET, KUBELET_KEPT, Kept
from promql.text import join

# The report of a long window reads a sample in five minutes of each process.
REPORT_INTERVAL: Final = "5m"
# Each alert of a node is held back while this one names it (`alerts.render`).
MANY: Final = "ShadowPlegManyNodes"


class Level(Enum):
    """What one alert is about."""

    NODE = "node"
    CLUSTER = "cluster"


class Record(Section, frozen=True):
    """A recording rule; each node or cluster has at most `series` of it."""

    name: str
    about: str
    expr: str
    series: int = 1
    quantile: str = ""


class Alert(Section, frozen=True):
    """An alert. `after`: from the problem to the condition, at most, beside the next scrape."""

    name: str
    summary: str
    description: str
    expr: str
    level: Level = Level.NODE
    after: str = "0s"


class Inhibition(Section, frozen=True):
    """While any of `by` fires, none of `muted` is delivered for the `same` node or cluster.

    `alike`: those of the same severity only.
    """

    by: list[str]
    muted: list[str]
    same: Level
    why: str
    alike: bool = False


class Source(Section, frozen=True):
    """The whole file: words, and records and alerts by group."""

    words: dict[str, str]
    records: dict[str, list[Record]]
    alerts: dict[str, list[Alert]]
    inhibitions: list[Inhibition]


SOURCE: Final = msgspec.yaml.decode(
    Path(__file__).with_name("source.yaml").read_bytes(), type=Source
)
ALERTS: Final = tuple(alert for group in SOURCE.alerts.values() for alert in group)
INHIBITIONS: Final = tuple(SOURCE.inhibitions)


def slo(window: str) -> Record:
    """The ratio that the budget is for, over a longer window made of short ones.

    The average of what is recorded: of 5 000 nodes, days of raw series are not affordable.
    """
    return Record(
        f"shadow_pleg:cluster:slo_missed_ratio:avg{window}",
        "Share that is lost of what kubelets rely on; absent where none relies on events alone.",
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
    return Record(series.recorded, series.about, expr, series.series)


REPORT: Final = (
    *map(_kept, KEPT),
    Record(
        KUBELET_KEPT,
        "1 where a kubelet is scraped.",
        f"group by (<< by_node >>, job) (last_over_time({KUBELET}{{<< kubelet >>}}[5m]))",
    ),
)
