"""A Prometheus' answers to all the queries of a report, made of a few numbers."""

from typing import Any

from fleet.options import Span
from fleet.queries import EXITS, OTHERS
from fleet.questions import Questions
from fleet.sources import SCRAPED
from tests.support.prometheus import Answered
from tests.support.report_fleets import EVENTS, START, WINDOW

END = START + WINDOW
SPAN = Span(300, 24, END)
BY_NODE = Questions(SPAN, ("cluster", "node"))
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
    "witnessed": by_event(10_000, **NEW),
    "judged": [sample(10_000, **NEW)],
    "coverage": named(
        seen=2, now=2, present=48, lived=48, streaming=48, together=24, first=START + 300
    ),
}


_NOTHING = (
    "missed",
    "late",
    "undecided",
    "gaps",
    "worst",
    "flapping",
    "flappers",
    "deafest",
    "incidents",
    "mislisted",
    "kubelets",
    "first_sight",
)


def answers(**results: Any) -> list[Answered]:  # noqa: ANN401 - JSON
    """A calm fleet's answers to all queries, but for these.

    `judged` is that of exits; `drawn` that of both charts.
    """
    found: dict[str, Any] = dict.fromkeys(_NOTHING, ()) | CALM | results
    drawn = found.pop("drawn", [])
    names = tuple(sorted({each["metric"].get("node", "") for each in found["worst"]}, key=str))
    exprs = {name: getattr(BY_NODE, name) for name in found}
    asked = {"judged": exprs.pop("judged")(EXITS)}
    if judged_on := exprs.pop("judged_on", None):
        asked["judged_on"] = judged_on(names)
    asked |= {name: expr() for name, expr in exprs.items()}
    known = [
        Answered("query", {"query": asked[name], "time": str(END)}, list(result))
        for name, result in found.items()
    ]
    known += [
        Answered("query", {"query": BY_NODE.delays(metric), "time": str(END)}, [])
        for metric in (SCRAPED.exit_to_event, SCRAPED.exit_to_list)
    ]
    others = {"query": BY_NODE.judged(OTHERS), "time": str(END)}
    known.append(Answered("query", others, [sample(30_000, **NEW)]))
    times = {"start": str(START + 300), "end": str(END), "step": "300"}
    charts = (BY_NODE.missed_over_time(), BY_NODE.nodes_over_time())
    return known + [Answered("query_range", {"query": expr, **times}, drawn) for expr in charts]
