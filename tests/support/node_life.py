"""A day of one node, told in day.yaml: every verdict and cause happens, at fixed times."""

import time
from pathlib import Path

import yaml

from exporter.model import facts
from exporter.model.events import Announcement, Listed, ListedState, Pod
from exporter.model.labels import (
    KubeletPods,
    Malformed,
    OomWitness,
    PodsEnd,
    StreamKind,
    StreamState,
)
from exporter.node.chronicle import Chronicle, Counting
from exporter.node.reporter import report
from exporter.node.state import RuntimeInfo
from tests.support.exposition import Measured
from tests.support.facts import EPOCH_NS, READY, Differences, Given, Whole
from tests.support.stories import told
from tests.support.tape import POD

EPOCH = EPOCH_NS / 10**9
# A stray's is of its own: where others run that are not seen, its processes may be theirs.
PODS = {"p1": POD, "p2": Pod("shop", "gone-9fd4b", "uid-strays")}
DAY = Path(__file__).with_name("day.yaml")


class Day:
    """Hands facts to a chronicle to which a reporter listens, and counts as the loops do."""

    def __init__(self, measured: Measured) -> None:
        self.node, self._histograms = measured.node, measured.histograms
        self._chronicle, self._differences = Chronicle(measured.ledger), Differences()
        self._chronicle.listen(
            Counting(self.node, time.time, lambda _: None, self._histograms.exit_measured).hear
        )
        self._chronicle.listen(report)
        self._shown: dict[str, Listed] = {}
        self.node.runtime = RuntimeInfo("containerd", "2.1.9", "v1", StreamKind.BROADCAST)

    def take(self, fact: Given) -> None:
        node = self.node
        match fact:
            case facts.StreamUp():
                node.connections += 1
                node.stream.state = StreamState.STREAMING
            case facts.StreamDown():
                node.stream.ends["unavailable"] += 1
                node.stream.state = StreamState.BACKOFF
            case facts.Discarded():
                node.discards += 1
                node.discards_unreconciled += 1
            case Announcement(flawed=None):
                fact = fact._replace(sandbox_id="p1", pod=POD)
                node.stream_last_seen_wall = EPOCH + fact.received
                self._histograms.event_delivery.observe(1 / 256)
            case Whole():
                fact = self._listed(fact)
        self._chronicle.record(self._differences.fact(fact))

    def _listed(self, changed: Whole) -> Whole:
        """All that it shows, beside what has changed; what is unknown is gone."""
        at = changed.requested
        self._shown |= {
            each.id: each._replace(sandbox_id="p1", name="app", pod=POD) for each in changed.items
        }
        shown = (each for each in self._shown.values() if each.state is not ListedState.UNKNOWN)
        homes = (READY.named(name)._replace(pod=pod) for name, pod in PODS.items())
        items = (*homes, *shown)
        self.node.listed = {item.id: item for item in items}
        self.node.relist_succeeded, self.node.relist_succeeded_wall = at, EPOCH + at
        self.node.discards_unreconciled = 0
        self._histograms.relist_duration.observe(1 / 32)
        self._histograms.relist_interval.observe(10.0)
        return Whole(at, at + 0.02, items)


def spend_day(measured: Measured) -> None:
    """The day, from the first subscription to a queue that overflows in the end."""
    day = Day(measured)
    chapters = yaml.safe_load(DAY.read_text(encoding="utf-8"))
    for chapter in chapters.values():
        for fact in told(chapter):
            day.take(fact)
    node = day.node
    node.pods.state, node.pods.ends[PodsEnd.LAGGED.value] = KubeletPods.WATCHING, 1
    node.oom.state = OomWitness.COUNTING
    node.relist_errors["deadline_exceeded"] += 1
    node.malformed[Malformed.UNKNOWN_STATE] += 2
    measured.histograms.loop_lag.observe(1 / 4096)
