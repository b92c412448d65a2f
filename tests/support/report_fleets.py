"""Synthetic fleets: what a node would have exported, written as OpenMetrics with times.

Here: a node's life as rates and moments, and the samples that follow from it. Not here: Prometheus
(`stand`). A node's counters rise by whole numbers at each scrape, so that every increase() over
whole slices has an exact result that can be worked out by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

# 2026-11-14T00:00:00Z, a multiple of every slice in use.
START = 1_794_614_400
MINUTE = 60
STEP = MINUTE
HOUR = 60 * MINUTE
WINDOW = 2 * HOUR

EVENTS = ("ContainerStarted", "ContainerDied", "ContainerRemoved", "ContainerChanged")
CAUSES = ("silent", "stream_down", "discarded", "by_design")
STATES = ("connecting", "streaming", "backoff", "disabled", "unsupported", "refused")

Misses = dict[tuple[str, str], int]


def everywhere(_at: int) -> bool:
    """At every scrape."""
    return True


@dataclass(frozen=True, slots=True)
class Node:
    """One node for the whole span; times are seconds since its begin.

    `each_minute`: transitions of each of the four events at each scrape. `missed` and `late` all
    happen at `lost_at`. The process restarts at `restarts`: every counter begins at 0 again.
    """

    name: str
    version: str = "2.1.9"
    runtime: str = "containerd"
    stream: str = "broadcast"
    each_minute: int = 25
    missed: Misses = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    gaps: dict[str, int] = field(default_factory=dict)
    lost_at: int = 45 * MINUTE
    restarts: tuple[int, ...] = ()
    scraped: Callable[[int], bool] = everywhere
    state: Callable[[int], str] = lambda _at: "streaming"
    upgraded: tuple[int, str] | None = None
    watched: bool = True
    kubelet: bool = True
    labels: str = ""

    @property
    def own(self) -> str:
        """The labels that Prometheus gives its target."""
        return self.labels or f'cluster="blue",instance="{self.name}:13386",node="{self.name}"'

    def version_at(self, at: int) -> str:
        """What `Version` answers."""
        return self.upgraded[1] if self.upgraded and at >= self.upgraded[0] else self.version

    def since_restart(self, at: int) -> int:
        """Seconds since the counters were 0."""
        return at - max((moment for moment in self.restarts if moment <= at), default=0)

    def counted(self, at: int, number: int) -> int:
        """What a counter shows of `number` that happened at `lost_at`."""
        began = at - self.since_restart(at)
        return number if began < self.lost_at <= at else 0


Series = Callable[[Node, int], Iterator[tuple[str, float]]]


def _missed(node: Node, at: int) -> Iterator[tuple[str, float]]:
    for event in EVENTS:
        for cause in CAUSES:
            number = node.counted(at, node.missed.get((event, cause), 0))
            yield f'event="{event}",object="container",cause="{cause}"', number


def _late(node: Node, at: int) -> Iterator[tuple[str, float]]:
    for event in EVENTS:
        yield f'event="{event}",object="container"', node.counted(at, node.late.get(event, 0))


def _gaps(node: Node, at: int) -> Iterator[tuple[str, float]]:
    for event in EVENTS:
        yield f'event="{event}",object="container"', node.counted(at, node.gaps.get(event, 0))


def _lifecycle(node: Node, at: int) -> Iterator[tuple[str, float]]:
    number = node.since_restart(at) // STEP * node.each_minute
    for event in EVENTS:
        yield f'event="{event}",object="container"', number


def _state(node: Node, at: int) -> Iterator[tuple[str, float]]:
    for state in STATES:
        yield f'state="{state}"', float(state == node.state(at))


def _runtime(node: Node, at: int) -> Iterator[tuple[str, float]]:
    said = f'name="{node.runtime}",version="{node.version_at(at)}"'
    yield f'{said},api_version="v1",stream="{node.stream}"', 1


def _build(_node: Node, _at: int) -> Iterator[tuple[str, float]]:
    yield 'version="0.1.0",python="3.11.2"', 1


FAMILIES: tuple[tuple[str, str, str, Series], ...] = (
    ("kube_pod_missed_events", "counter", "_total", _missed),
    ("shadow_pleg_lifecycle_events", "counter", "_total", _lifecycle),
    ("shadow_pleg_late_events", "counter", "_total", _late),
    ("shadow_pleg_event_gaps", "counter", "_total", _gaps),
    ("shadow_pleg_stream_state", "gauge", "", _state),
    ("shadow_pleg_runtime_info", "gauge", "", _runtime),
    ("shadow_pleg_build_info", "gauge", "", _build),
)
_KUBELET = "kubelet_pleg_relist_interval_seconds_count"


def openmetrics(nodes: list[Node], seconds: int = WINDOW, step: int = STEP) -> Iterator[str]:
    """Lines for `promtool tsdb create-blocks-from openmetrics`, scraped every `step`."""
    times = range(0, seconds + 1, step)
    for name, kind, suffix, series in FAMILIES:
        yield f"# TYPE {name} {kind}"
        for node in nodes:
            if not node.watched:
                continue
            for at in filter(node.scraped, times):
                for labels, value in series(node, at):
                    yield f"{name}{suffix}{{{node.own},{labels}}} {value} {START + at}"
    yield f"# TYPE {_KUBELET} gauge"
    for node in nodes:
        if node.kubelet:
            own = node.own.replace(":13386", ":10250")
            for at in times:
                yield f"{_KUBELET}{{{own}}} {at} {START + at}"
    yield "# EOF"


def first_half_refused(at: int) -> str:
    """Not subscribed for the first hour."""
    return "refused" if at <= HOUR else "streaming"


def numbered(number: int, prefix: str = "fine") -> list[Node]:
    """Nodes that lose nothing."""
    return [Node(f"{prefix}-{i}") for i in range(number)]


# Names that would be markup, if a page let them.
HOSTILE = "a|b<script>alert(1)</script>"
MIXED = [
    *numbered(12),
    Node("once", missed={("ContainerDied", "silent"): 1}, lost_at=20 * MINUTE),
    Node(
        "bad",
        version="2.1.8",
        missed={
            ("ContainerDied", "silent"): 50,
            ("ContainerStarted", "silent"): 2,
            ("ContainerStarted", "stream_down"): 13,
            ("ContainerChanged", "discarded"): 7,
            ("ContainerRemoved", "by_design"): 5,
        },
        late={"ContainerStarted": 4},
        gaps={"ContainerStarted": 3},
    ),
    Node("upgraded", version="1.7.24", upgraded=(HOUR, "2.1.9")),
    Node(HOSTILE, version="1.7.24", stream="exclusive", state=lambda _at: "refused"),
    Node("bare", watched=False),
    Node("gap", scraped=lambda at: at < HOUR or at >= 100 * MINUTE),
]
