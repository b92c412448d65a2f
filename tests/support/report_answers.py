"""A Prometheus' answers to all the queries of a report, made of a few numbers."""

from typing import Any

from fleet.options import Span
from fleet.queries import Queries
from tests.support.prometheus import Answered
from tests.support.report_fleets import EVENTS, START, WINDOW

END = START + WINDOW
SPAN = Span(300, 24, END)
BY_NODE = Queries(SPAN, ("cluster", "node"))
OLD = {"name": "containerd", "version": "1.7.24", "stream": "exclusive"}
NEW = {"name": "containerd", "version": "2.1.9", "stream": "broadcast"}


def sample(number: float, **labels: str) -> dict[str, Any]:
    """One series of a vector."""
    return {"metric": labels, "value": [END, str(number)]}


def named(**numbers: float) -> list[dict[str, Any]]:
    """Several numbers in one answer."""
    return [sample(number, what=what) for what, number in numbers.items()]


def by_event(number: float, **labels: str) -> list[dict[str, Any]]:
    """So many transitions of each event."""
    return [sample(number, **labels, event=event) for event in EVENTS]


# Two nodes that listened to all of 40,000 transitions, in a fleet that Prometheus knows nothing
# else about.
CALM: dict[str, Any] = {
    "processes": named(all=2, named=2),
    "nodes": [sample(2, **NEW)],
    "lifecycle_events": by_event(10_000, **NEW),
    "judged_exits": [sample(10_000, **NEW)],
    "judged_others": [sample(30_000, **NEW)],
    "coverage": named(seen=2, now=2, lived=48, streaming=48, together=24, first=START + 300),
}


def answers(**results: Any) -> list[Answered]:  # noqa: ANN401 - JSON
    """A calm fleet's answers to all queries, but for these."""
    asked = BY_NODE.asked() | {
        "processes": BY_NODE.processes(),
        "first_sight": BY_NODE.first_sight(),
    }
    found = dict.fromkeys(asked, ()) | CALM | results
    return [
        Answered("query", {"query": asked[name], "time": str(END)}, list(result))
        for name, result in found.items()
    ]
