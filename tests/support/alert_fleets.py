"""Nodes and fleets of them as Prometheus scrapes them, and what is done to them.

Times are minutes, and in order: what is done later to a node is called later.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from exporter.conditions.account import LOST
from exporter.metrics.families import NODE_CONDITION
from exporter.model.events import Lifecycle
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import OomKill, StreamState
from exporter.node.judgement import longest_pause
from exporter.settings.config import Config
from tests.support.expressions import groups, metrics_of, needed
from tests.support.scraped import STREAMING, Exporter, Target
from tests.support.stage import Stage, ours

PERIOD: Final = Config().relist_period
CLUSTER: Final = "blue"
MISSED: Final = "kube_pod_missed_events_total"
LATE: Final = "shadow_pleg_late_events_total"
LIFECYCLE: Final = "shadow_pleg_lifecycle_events_total"
RECEIVED: Final = "shadow_pleg_events_received_total"
RUNTIME: Final = "shadow_pleg_runtime_info"
STATE: Final = "shadow_pleg_stream_state"
GATE: Final = "kubernetes_feature_enabled"
BUILD: Final = "kubernetes_build_info"
VERSION: Final = "v1.36.2"
KUBELET_ERRORS: Final = "kubelet_evented_pleg_connection_error_count"
KUBELET_EVENTS: Final = "kubelet_evented_pleg_connection_latency_seconds_count"
# What the cluster's rules take from a node that nothing happens to.
ENOUGH: Final = frozenset({"up", "process_start_time_seconds", LIFECYCLE, MISSED})
# Rules treat all alike: these are enough for alerts.
FEW: Final = {
    "event": ("ContainerStarted", "ContainerDied", "STARTED", "STOPPED"),
    "object": ("container",),
    "state": ("streaming",),
}
COUNTS: Final = ("counter", "histogram")
RUNS: Final = {"name": "containerd", "version": "2.1.9", "stream": "broadcast"}
# Of each event in a minute, where pods come and go as on other days.
CHURN: Final = 2.0
EVENTS: Final = {event.label: event for event in Lifecycle}
# Minutes from a transition that nothing announces to its verdict, at most.
UNDELIVERED: Final = 50 / 60
# Of nodes that are taken away again.
SPOT_MINUTES: Final = 20
SPOT_LIVES: Final = 5
# At each minute, what happens to whom: nodes ("a b"), those of a cluster or "all"; or a target of
# theirs ("a.kubelet", "all.targets"). The name of a method, or that with its arguments and labels.
Timeline = Mapping[float, Mapping[str, str | list[Any]]]


@cache
def exported(*, whole: bool) -> tuple[tuple[str, dict[str, str], bool], ...]:
    """Series that rules read, or alerts alone if not `whole`: name, labels, if it is a counter."""
    judging = groups() if whole else needed(groups())
    read = set().union(*(metrics_of(rule["expr"]) for each in judging for rule in each["rules"]))
    return tuple(
        (sample.name, RUNS if sample.name == RUNTIME else sample.labels, family.type in COUNTS)
        for family in ours(Stage().registry)
        for sample in family.samples
        if sample.name in read
        and (whole or all(value in FEW.get(name, value) for name, value in sample.labels.items()))
    )


@dataclass(frozen=True, slots=True)
class Kind:
    """What runs on a node, and where its subscription stays."""

    stream: str = "streaming"
    # The share of its transitions that this runtime never announces.
    by_design: float = 0
    watched: bool = True


KINDS: Final = {
    "containerd": Kind(),
    "containerd 1.7": Kind(stream="refused"),
    "cri-o": Kind(by_design=0.3),
    "cri-o without events": Kind(stream="disabled"),
    # Windows and virtual nodes have a kubelet and nothing else that is scraped.
    "unwatched": Kind(watched=False),
}


class Node:
    """A node's exporter and kubelet, each of which is a target of its own.

    `scrape`: every so many seconds, and the first time after so many. `whole`: with all events and
    objects, and with what only the report reads.
    """

    def __init__(
        self,
        name: str,
        kind: str = "containerd",
        cluster: str = CLUSTER,
        scrape: tuple[int, int] = (60, 0),
        *,
        whole: bool = False,
    ) -> None:
        self.name, self.kind, self.cluster = name, KINDS[kind], cluster
        self._whole = whole
        self._scrape = scrape
        self.rate = CHURN
        self.former: list[Target] = []
        self.kubelet = self.new_kubelet()
        self.exporter = self.new_exporter()
        if not self.kind.watched:
            self.exporter.vanish(0)

    @property
    def targets(self) -> tuple[Target, ...]:
        return *self.former, self.exporter, self.kubelet

    def _target(self, job: str) -> Target:
        return Target(job, self.name, self._instance(job), *self._scrape)

    def _instance(self, job: str) -> str:
        return f"{self.name}:{job}:{len(self.former)}"

    def new_kubelet(self) -> Target:
        it = self._target("kubelet")
        it.gauge(GATE, 0, name="EventedPLEG", stage="ALPHA")
        it.gauge(BUILD, 1, git_version=VERSION)
        it.counter("kubelet_pleg_discard_events")
        if self._whole:
            it.counter("kubelet_pleg_relist_interval_seconds_count", 60)
        for name in (KUBELET_ERRORS, KUBELET_EVENTS):
            it.counter(name)
            it.put(0, name, math.nan)
        return it

    def new_exporter(self) -> Exporter:
        it = Exporter("shadow-pleg", self.name, self._instance("shadow-pleg"), *self._scrape)
        it.whole = self._whole
        for name, labels, counts in exported(whole=self._whole):
            if name == NODE_CONDITION.name:
                continue
            if counts:
                it.counter(name, **labels)
            else:
                it.gauge(name, 0, **labels)
        if self._whole:
            it.put(0, "shadow_pleg_kernel_witness", 1, state="watching")
            it.put(0, RUNTIME, 1)
        self.exporter = it
        self.state(0, self.kind.stream)
        it.is_now(0, exclusive=self.kind.stream == "refused")
        self.churn(0, self.rate)
        return it

    def churn(self, at: float, a_minute: float = CHURN) -> None:
        """So many of each event in a minute from then on, announced where there is a stream."""
        self.rate, it = a_minute, self.exporter
        heard = a_minute if self.kind.stream == "streaming" else 0
        it.pace(at, LIFECYCLE, a_minute)
        it.pace(at, RECEIVED, heard * (1 - self.kind.by_design))
        it.pace(at, MISSED, heard * self.kind.by_design, cause="by_design")
        for event in Lifecycle:
            it.sees_steadily(at, (Verdict.WITNESSED, event, None), a_minute)
            by_design = heard * self.kind.by_design
            it.sees_steadily(at, (Verdict.MISSED, event, Cause.BY_DESIGN), by_design)
        if self._whole:
            it.pace(at, "shadow_pleg_exit_to_event_seconds_bucket", heard)
        it.sees_steadily(at, "received", 4 * heard)
        it.sees_steadily(at, "timed", heard)

    def miss(self, at: float, event: str, cause: str, number: int) -> None:
        self.exporter.add(at, LIFECYCLE, number, event=event, object="container")
        self.exporter.add(at, MISSED, number, event=event, object="container", cause=cause)
        self.exporter.sees(at, (Verdict.WITNESSED, EVENTS[event], None), number)
        self.exporter.sees(at, (Verdict.MISSED, EVENTS[event], Cause(cause)), number)

    def late(self, at: float, event: str, cause: str, number: int) -> None:
        self.exporter.add(at, LATE, number, event=event, object="container", cause=cause)
        self.exporter.sees(at, (Verdict.LATE, EVENTS[event], Cause(cause)), number)

    def lose(self, at: float, event: str, cause: str, a_minute: float) -> None:
        """Of what comes and goes, so many in a minute are missed."""
        self.exporter.grow(at, MISSED, a_minute, event=event, object="container", cause=cause)
        seen = Verdict.MISSED, EVENTS[event], Cause(cause)
        self.exporter.sees_steadily(at, seen, a_minute)

    def finds(self, at: float, verdict: str, number: int, why: str = "") -> None:
        cause = OomKill(why) if why else None
        self.exporter.sees(at, (Verdict(verdict), Lifecycle.DIED, cause), number)

    def stand(self, at: float, verdict: str, number: int, minutes: float = math.inf) -> None:
        """Of so many containers lists or kubelet are wrong, for so long."""
        self.exporter.is_now(at, standing={Verdict(verdict): number})
        if minutes < math.inf:
            self.exporter.is_now(at + minutes, standing={})

    def present(self, at: float, minutes: float = math.inf, **present: object) -> None:
        """The node is so, as `Present` has it, for so long."""
        self.exporter.is_now(at, **present)
        if minutes < math.inf:
            usual = {name: getattr(STREAMING, name) for name in present}
            self.exporter.is_now(at + minutes, **usual)

    def drop(self, at: float, *names: str) -> None:
        """Prometheus keeps no such series of the exporter: `Target.without`."""
        assert not at
        self.exporter.without(*names)

    def state(self, at: float, state: str) -> None:
        now = StreamState(state)
        if self._whole:
            self.exporter.put(at, STATE, 0)
            self.exporter.put(at, STATE, 1, state=state)
        else:
            # Rules read no other.
            self.exporter.put(at, STATE, now is StreamState.STREAMING, state="streaming")
        self.exporter.is_now(at, stream=now)

    def down(self, at: float, minutes: float) -> None:
        self.state(at, "backoff")
        self.state(at + minutes, "streaming")

    def end_streams(self, at: float, number: int, reason: str = "unavailable") -> None:
        """So many subscriptions end; the next one is there at once."""
        self.exporter.add(at, "shadow_pleg_stream_connections_total", number)
        if reason != "overflow":
            self.exporter.sees(at, "ends", number)

    def hear_nothing(self, at: float) -> None:
        self.exporter.freeze(at, RECEIVED)
        self.exporter.sees_steadily(at, "received", 0)
        self.exporter.sees_steadily(at, "timed", 0)

    def silence(self, at: float) -> None:
        """The stream is open, and nothing comes of what happens."""
        self.hear_nothing(at)
        lost = self.rate * (1 - self.kind.by_design)
        self.exporter.pace(at + UNDELIVERED, MISSED, lost, cause="stalled")
        for event in Lifecycle:
            stalled = Verdict.MISSED, event, Cause.STALLED
            self.exporter.sees_steadily(at + UNDELIVERED, stalled, lost)

    def kubelet_is(self, at: float, version: str) -> None:
        self.kubelet.put(at, BUILD, math.nan)
        self.kubelet.gauge(BUILD, math.nan, git_version=version)
        self.kubelet.put(at, BUILD, 1, git_version=version)

    # What is done to it on an ordinary day.

    def drain(self, at: float) -> None:
        self.churn(at, 15 * CHURN)
        self.churn(at + 4, 0)

    def uncordon(self, at: float) -> None:
        self.churn(at, 10 * CHURN)
        self.churn(at + 3)

    def reboot(self, at: float, minutes: float = 4) -> None:
        """Nothing on it answers; then the kubelet does first."""
        self.exporter.unscraped(at, minutes)
        self.kubelet.restart(at, minutes)
        self.replace_exporter(at + minutes, 1)

    def restart_runtime(self, at: float, minutes: float = 0.4, into: str = "") -> None:
        """As an upgrade does, which may make it another kind (`into`)."""
        it, back = self.exporter, at + minutes
        it.is_now(at + 0.2, answers=False, relist_reason="unavailable")
        self._relist(back + 0.2)
        if self.kind.stream == "streaming":
            it.sees(at, "ends", 1)
            self.state(at, "backoff")
            self.miss(back + 0.3, "ContainerDied", "stream_down", 3)
        self.kind = KINDS[into] if into else self.kind
        self.state(back, self.kind.stream)
        it.is_now(back, exclusive=self.kind.stream == "refused")
        if self.kind.stream == "streaming":
            it.add(back, "shadow_pleg_stream_connections_total", 1)
        self.churn(back, self.rate)

    def replace_exporter(self, at: float, minutes: float = 0.7) -> None:
        self.exporter.vanish(at)
        self.install(at + minutes)

    def install(self, at: float) -> None:
        """Its first pod, or a new one, which has not listed anything at once."""
        self.former.append(self.exporter)
        it = self.new_exporter()
        it.appear(at)
        it.is_now(at, answers=None)
        if self.kind.stream == "streaming":
            self.state(at, "connecting")
            self.state(at + 0.2, "streaming")
            it.add(at + 0.2, "shadow_pleg_stream_connections_total", 1)
        self._relist(at + 0.3)

    def _relist(self, at: float) -> None:
        self.exporter.is_now(at, answers=True, relist_reason="")

    def overdue(self, at: float, minutes: float) -> None:
        """Each relist is so late, or takes so long."""
        self.exporter.is_now(at, overdue=minutes * 60 - longest_pause(PERIOD))

    def join(self, at: float) -> None:
        """A new node, perhaps of an old name: its kubelet answers first."""
        self.former.append(self.kubelet)
        self.kubelet = self.new_kubelet()
        self.kubelet.appear(at)
        self.install(at + 2)

    def leave(self, at: float) -> None:
        """It is drained and switched off; its targets stay for a while."""
        self.drain(at)
        for target in self.targets:
            target.unscraped(at + 5, 3)
            target.vanish(at + 8)

    def gate_on(self, at: float = 0) -> None:
        if at:
            self.kubelet.restart(at, 0.5)
        self.kubelet.put(at, GATE, 1, name="EventedPLEG")
        self.kubelet.put(at, KUBELET_ERRORS, 0)
        self.kubelet.put(at, KUBELET_EVENTS, 0)
        self.kubelet.pace(at, KUBELET_EVENTS, 8 * CHURN)

    def gate_off(self, at: float) -> None:
        self.kubelet.restart(at, 0.5)
        self.kubelet.put(at, GATE, 0, name="EventedPLEG")
        self.kubelet.put(at, KUBELET_ERRORS, math.nan)
        self.kubelet.put(at, KUBELET_EVENTS, math.nan)

    def failed_starts(self, at: float, minutes: float) -> None:
        """Containers with a command that does not exist are tried again and again."""
        died = {"event": "ContainerDied", "object": "container"}
        for moment, growth in ((at, 10), (at + minutes, -10)):
            self.exporter.grow(moment, LIFECYCLE, growth, object="container")
            self.exporter.grow(moment, MISSED, growth, **died, cause="by_design")
            # Their creation and removal are announced.
            self.exporter.grow(moment, RECEIVED, growth, object="container")
        more = self.rate + 10
        for moment, a_minute in ((at, more), (at + minutes, self.rate)):
            for event in Lifecycle:
                self.exporter.sees_steadily(moment, (Verdict.WITNESSED, event, None), a_minute)
            unseen = a_minute - self.rate + self.rate * self.kind.by_design
            by_design = Verdict.MISSED, Lifecycle.DIED, Cause.BY_DESIGN
            self.exporter.sees_steadily(moment, by_design, unseen)

    def slow_disk(self, at: float, minutes: float, seconds: float) -> None:
        """Relists take so long, and half of the exits are announced late."""
        self.exporter.is_now(at, relist_seconds=seconds)
        self.exporter.is_now(at + minutes, relist_seconds=0.2)
        self.exporter.sees_steadily(at, "slow", self.rate / 2)
        self.exporter.sees_steadily(at + minutes, "slow", 0)

    def late_exits(self, at: float, share: float = 1) -> None:
        self.exporter.sees_steadily(at, "slow", share * self.rate)


class Fleet:
    """Nodes by name, scraped at times that are multiples of `grid` seconds."""

    def __init__(self, *nodes: Node, grid: int = 60) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.grid = grid

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    @property
    def targets(self) -> list[Target]:
        return [target for node in self.nodes.values() for target in node.targets]

    def apply(self, when: Timeline, since: float = 0) -> None:
        """Let it happen; minutes count from `since`."""
        for minute, changes in when.items():
            for names, what in changes.items():
                name, arguments, labels = _call(what)
                times, every = 1, 0.0
                if name == "again":
                    times, every, name, *arguments = arguments
                for it in self._named(names):
                    for number in range(times):
                        getattr(it, name)(since + minute + number * every, *arguments, **labels)

    def _named(self, names: str) -> Iterator[Node | Target]:
        for name in names.split():
            named, _, target = name.partition(".")
            of = [it for it in self.nodes.values() if named in (it.name, it.cluster, "all")]
            assert of, f"there is no {named}"
            for each in of:
                if target == "targets":
                    yield from each.targets
                else:
                    yield getattr(each, target) if target else each

    def notation(self, begin: float, end: float) -> Iterator[dict[str, str]]:
        for node in self.nodes.values():
            for target in node.targets:
                yield from target.notation(node.cluster, self.grid, begin * 60, end * 60)


def _call(what: str | list[Any]) -> tuple[str, list[Any], dict[str, str]]:
    call: list[Any] = [what] if isinstance(what, str) else what
    labels: dict[str, str] = call[-1] if isinstance(call[-1], dict) else {}
    return call[0], call[1 : len(call) - bool(labels)], labels


def spots(slots: int, cluster: str) -> list[Node]:
    """So many nodes at a time that live for 20 minutes each, and are replaced by others."""
    found = [Node(f"spot{number}", cluster=cluster) for number in range(slots * SPOT_LIVES)]
    for number, it in enumerate(found):
        born = SPOT_MINUTES * (number / slots - 1)
        for target in it.targets:
            target.vanish(0)
        it.join(max(born, 0.5))
        for target in it.targets:
            target.vanish(born + SPOT_MINUTES)
    return found


def fleet(
    others: int = 0, *, evented: bool = False, cluster: str = CLUSTER, whole: bool = False
) -> Fleet:
    """Node `a`, to which things happen; of `b` and of others (`n1` ...) what a cluster needs."""
    names = ("b", *(f"n{number}" for number in range(1, others + 1)))
    rest = [Node(name, cluster=cluster) for name in names]
    for node in rest:
        node.exporter.without(*({metric for metric, _ in node.exporter.series} - ENOUGH))
        node.exporter.without(*(f"{MISSED} {cause.value}" for cause in Cause if cause not in LOST))
    it = Fleet(Node("a", cluster=cluster, whole=whole), *rest)
    for node in it.nodes.values() if evented else ():
        node.gate_on()
    return it
