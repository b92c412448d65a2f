"""What a rule is before it is written: a recording rule or an alert, as data.

Texts are templates with `<< >>` around what comes from the values and from
`alerts.terms`; `{{ }}` stays for Prometheus.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """What one alert is about."""

    NODE = "node"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Record:
    """A recording rule; each node or cluster (`per`) has at most `series` of it."""

    name: str
    about: str
    expr: str
    series: int = 1
    per: Level = Level.NODE
    quantile: str = ""


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert. Its severity and timings are in the values.

    `after`: the time from the problem to the condition, at most, beside the next scrape.
    """

    name: str
    summary: str
    description: str
    expr: str
    level: Level = Level.NODE
    after: str = "0s"


@dataclass(frozen=True, slots=True)
class Inhibition:
    """While any of `by` fires, none of `muted` is delivered for the same node or cluster.

    `alike`: those of the same severity only.
    """

    by: tuple[str, ...]
    muted: tuple[str, ...]
    same: Level
    why: str
    alike: bool = False
