"""Synthetic fleets for a report: what each node would have exported, as OpenMetrics with times.

A node's counters rise by whole numbers at each scrape, so that every increase() over whole slices
has an exact result that can be worked out by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

# 2026-11-14T00:00:00Z, a multiple of every slice in use.
START = 1_794_614_400
MINUTE = 60
HOUR = 60 * MINUTE
WINDOW = 2 * HOUR

EVENTS = ("ContainerStarted", "ContainerDied", "ContainerRemoved", "ContainerChanged")
CAUSES = ("silent", "stream_down", "discarded", "by_design")
STATES = ("connecting", "streaming", "backoff", "disabled", "unsupported", "refused")
# Transitions of each event between two scrapes a minute apart, and of all in the window.
A_MINUTE = 25
EACH = len(EVENTS) * A_MINUTE * WINDOW // MINUTE


@dataclass(frozen=True, slots=True)
class ReportNode:
    """One node for the whole window; times are seconds since its begin.

    `missed`, `late` and `gaps` all happen at `lost_at`. The process restarts at `restarts`: every
    counter begins at 0 again. A node that is not `watched` has a kubelet only.
    """

    name: str
    version: str = "2.1.9"
    runtime: str = "containerd"
    stream: str = "broadcast"
    missed: Mapping[tuple[str, str], int] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    gaps: Mapping[str, int] = field(default_factory=dict)
    lost_at: int = 45 * MINUTE
    restarts: tuple[int, ...] = ()
    scraped: Callable[[int], bool] = lambda _at: True
    state: Callable[[int], str] = lambda _at: "streaming"
    upgraded: tuple[int, str] | None = None
    watched: bool = True
    cluster: str = "blue"
    labels: str = ""

    def target(self, port: int) -> str:
        """The labels that Prometheus gives a target of this node."""
        own = f'cluster="{self.cluster}",instance="{self.name}:{port}",node="{self.name}"'
        return self.labels or own

    def samples(self, at: int) -> Iterator[tuple[str, str, float]]:
        """Name, labels and value of each sample of a scrape of the exporter."""
        began = max((moment for moment in self.restarts if moment <= at), default=0)
        counted = began < self.lost_at <= at
        for event in EVENTS:
            what = f'event="{event}",object="container"'
            for cause in CAUSES:
                number = self.missed.get((event, cause), 0) * counted
                yield "kube_pod_missed_events_total", f'{what},cause="{cause}"', number
            transitions = (at - began) // MINUTE * A_MINUTE
            yield "shadow_pleg_lifecycle_events_total", what, transitions
            yield "shadow_pleg_late_events_total", what, self.late.get(event, 0) * counted
            yield "shadow_pleg_event_gaps_total", what, self.gaps.get(event, 0) * counted
        for state in STATES:
            yield "shadow_pleg_stream_state", f'state="{state}"', state == self.state(at)
        upgraded = self.upgraded is not None and at >= self.upgraded[0]
        version = self.upgraded[1] if self.upgraded and upgraded else self.version
        said = f'name="{self.runtime}",version="{version}",api_version="v1",stream="{self.stream}"'
        yield "shadow_pleg_runtime_info", said, 1
        yield "shadow_pleg_build_info", 'version="0.1.0",python="3.11.2"', 1


def scrapes_of(nodes: Iterable[ReportNode], seconds: int, step: int) -> Iterator[str]:
    """Lines for `promtool tsdb create-blocks-from openmetrics`, scraped every `step`."""
    for node in nodes:
        for at in range(0, seconds + 1, step):
            yield (
                "kubelet_pleg_relist_interval_seconds_count"
                f"{{{node.target(10250)}}} {at} {START + at}"
            )
            if node.watched and node.scraped(at):
                for name, labels, value in node.samples(at):
                    yield f"{name}{{{node.target(13386)},{labels}}} {float(value)} {START + at}"
    yield "# EOF"


def numbered(number: int, prefix: str = "fine", cluster: str = "blue") -> list[ReportNode]:
    """Nodes that lose nothing."""
    return [ReportNode(f"{prefix}-{i}", cluster=cluster) for i in range(number)]


# A name that would be markup, if a page let it.
HOSTILE = "a|b<script>alert(1)</script>"
MIXED = [
    *numbered(12),
    ReportNode("once", missed={("ContainerDied", "silent"): 1}, lost_at=20 * MINUTE),
    ReportNode(
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
    ReportNode("upgraded", version="1.7.24", upgraded=(HOUR, "2.1.9")),
    ReportNode(HOSTILE, version="1.7.24", stream="exclusive", state=lambda _at: "refused"),
    ReportNode("bare", watched=False),
    ReportNode("gap", scraped=lambda at: at < HOUR or at >= 100 * MINUTE),
]
