"""Builds the metrics from the node's state at scrape time.

Only histograms are observed as things happen. Every label combination exists from the start, so
that `increase()` sees the first miss; the number of series never changes. Importing this module
registers nothing: the registry is passed in.
"""

import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from itertools import product
from typing import Any, Final

from prometheus_client.core import Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics import disable_created_metrics
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.samples import Exemplar

from exporter import __version__
from exporter.conditions import catalogue
from exporter.metrics import families
from exporter.metrics.families import CounterSpec, GaugeSpec, Spec
from exporter.model.events import EventType, Lifecycle, ListedState, ObjectKind, Pod
from exporter.model.findings import Cause, Finding, Untimed, Verdict
from exporter.model.labels import EOF, Call, Flaw, Malformed, OomKill, PodsEnd, Refusal, StreamKind
from exporter.node.judgement import STANDING, Judgement
from exporter.node.state import Node, RuntimeInfo
from exporter.pleg.ledger import Ledger

_GRPC_CODES: Final = (
    *("aborted", "already_exists", "cancelled", "data_loss", "deadline_exceeded"),
    *("failed_precondition", "internal", "invalid_argument", "not_found", "out_of_range"),
    *("permission_denied", "resource_exhausted", "unauthenticated", "unavailable"),
    *("unimplemented", "unknown"),
)
# OpenMetrics' limit for all label names and values of an exemplar, in characters.
_BOUND: Final = 128
# Only slower exits get an exemplar: it costs more than all else that is done here for an exit.
_EXEMPLARY_SECONDS: Final = 0.1
_SHORT_ID: Final = 13  # As printed by crictl.
_DISCONNECTS: Final = (EOF, "overflow", *_GRPC_CODES)
_SANDBOX_STATES: Final = {
    "ready": ListedState.RUNNING,
    "notready": ListedState.EXITED,
    "unknown": ListedState.UNKNOWN,
}
_NO_RUNTIME: Final = RuntimeInfo("", "", "", StreamKind.NONE)
_ALONE: Final = (None,)
# What a runtime never announces is never late.
_OWED: Final = tuple(each for each in Cause if each is not Cause.BY_DESIGN)
_EXPLAINED: Final = tuple(each for each in _OWED if each is not Cause.SILENT)
# The verdict that each metric counts, and the causes that it includes.
_JUDGED: Final[dict[CounterSpec, tuple[Verdict, tuple[Cause | None, ...]]]] = {
    families.MISSED: (Verdict.MISSED, tuple(Cause)),
    families.LATE: (Verdict.LATE, _OWED),
    families.LIFECYCLE: (Verdict.WITNESSED, _ALONE),
}
# The verdicts that `families.VERDICTS` counts, and the causes that each may have.
_ELSE: Final[dict[Verdict, tuple[Cause | None, ...]]] = {
    Verdict.UNSEEN: _ALONE,
    Verdict.GAP: (None, *_EXPLAINED),
    Verdict.UNDECIDED: _ALONE,
    Verdict.DUPLICATE: _ALONE,
    Verdict.CONTRADICTED: _ALONE,
    Verdict.BACKLOG: _ALONE,
}


Registry = CollectorRegistry


class Histograms:
    """The histograms: their values, in seconds, must be observed when they occur."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.relist_duration = families.RELIST_DURATION.register(registry)
        self.relist_interval = families.RELIST_INTERVAL.register(registry)
        self.event_delivery = families.EVENT_DELIVERY.register(registry)
        self.loop_lag = families.LOOP_LAG.register(registry)
        self._of_exits = {
            Verdict.EXIT_ANNOUNCED: families.EXIT_TO_EVENT.register(registry),
            Verdict.EXIT_LISTED: families.EXIT_TO_LIST.register(registry),
            Verdict.EXIT_BELIEVED: families.EXIT_TO_STATUS.register(registry),
            Verdict.EVENT_BELIEVED: families.EVENT_TO_STATUS.register(registry),
        }

    def exit_measured(self, finding: Finding) -> None:
        """Observe how late an exit was announced, listed or believed; a slow one is an exemplar."""
        histogram = self._of_exits.get(finding.verdict)
        if histogram is not None and finding.seconds is not None:
            slow = finding.seconds > _EXEMPLARY_SECONDS
            histogram.observe(finding.seconds, exemplar_labels(finding) if slow else None)


class NodeCollector(Collector):
    """Counters and gauges of one node.

    `judgement` returns that of now, `queue` its length and capacity, `unlogged` the number of log
    lines that were dropped.
    """

    def __init__(
        self,
        node: Node,
        ledger: Ledger,
        judgement: Callable[[], Judgement],
        queue: Callable[[], tuple[int, int]],
        unlogged: Callable[[], int],
    ) -> None:
        self._node = node
        self._ledger = ledger
        self._judgement = judgement
        self._queue = queue
        self._unlogged = unlogged

    def collect(self) -> Iterator[Metric]:
        """All families but the histograms."""
        yield from self._judged()
        yield from self._scalars()
        yield from self._stream()
        held = {each.name for each in self._judgement().conditions}
        conditions = {(each.name,): each.name in held for each in catalogue.ALL}
        yield families.NODE_CONDITION.family(conditions)
        inventory = self._node.inventory
        sandboxes = {(label,): inventory.sandboxes[s] for label, s in _SANDBOX_STATES.items()}
        yield families.SANDBOXES.family(sandboxes)
        containers = {(state.value,): inventory.containers[state] for state in ListedState}
        yield families.CONTAINERS.family(containers)
        runtime = self._node.runtime or _NO_RUNTIME
        named = (runtime.name, runtime.version, runtime.api_version, runtime.stream.value)
        yield families.RUNTIME.family({named: 1})
        yield families.BUILD.family({(__version__, platform.python_version()): 1})

    def _judged(self) -> Iterator[Metric]:
        """The metrics that count findings, each with its labels of event, object and cause."""
        tally = self._node.tally
        for spec, (verdict, causes) in _JUDGED.items():
            values: Counter[tuple[str, ...]] = Counter()
            newest: dict[tuple[str, ...], Exemplar] = {}
            for event, kind, cause in product(Lifecycle, ObjectKind, causes):
                named = (event.label, kind.value, cause.value if cause else "")
                labels = named[: len(spec.labels)]
                values[labels] += tally.counts[verdict, event, kind, cause]
                if spec is families.MISSED and (last := tally.newest.get((event, kind, cause))):
                    newest[labels] = exemplar_of(*last)
            yield spec.family(values, newest)
        yield families.VERDICTS.family(
            {
                (verdict.value, event.label, kind.value, cause.value if cause else ""): number
                for verdict, causes in _ELSE.items()
                for event, kind, cause in product(Lifecycle, ObjectKind, causes)
                # Only a container's exit may be undecided.
                if (number := tally.counts[verdict, event, kind, cause])
                or verdict is not Verdict.UNDECIDED
                or (event is Lifecycle.DIED and kind is ObjectKind.CONTAINER)
            }
        )
        kinds = (*STANDING, Verdict.DISAGREES)
        yield families.CONTRADICTIONS.family({(each.value,): tally.total(each) for each in kinds})
        active = {(each.value,): self._ledger.number(each) for each in STANDING}
        yield families.ACTIVE.family(active)
        kills = {(each.value,): tally.total(Verdict.OOM, each) for each in OomKill}
        yield families.OOM_KILLS.family(kills)
        flaws: Counter[tuple[str, ...]] = Counter()
        for what, kind, flaw in product(EventType, ObjectKind, Flaw):
            found = tally.counts[Verdict.FLAWED, what.announces, kind, flaw]
            flaws[what.name, flaw.value] += found
        yield families.FLAWED.family(flaws)

    def _scalars(self) -> Iterator[Metric]:
        node, ledger = self._node, self._ledger
        length, capacity = self._queue()
        values: dict[Spec, float] = {
            families.UNRESOLVED: ledger.unresolved,
            families.DISCARDS: node.discards,
            families.DISCARDS_UNRECONCILED: node.discards_unreconciled,
            families.QUEUE_LENGTH: length,
            families.QUEUE_CAPACITY: capacity,
            families.LAST_SEEN: node.relist_succeeded_wall,
            families.RELIST_PERIOD: node.relist_period,
            families.STREAM_LAST_SEEN: node.stream_last_seen_wall,
            families.STREAM_CONNECTIONS: node.connections,
            families.STREAM_STALLS: ledger.stalls,
            families.CLOCK_STEPS: node.clock_steps,
            families.EVIDENCE_DROPPED: node.evidence_dropped,
            families.LOG_DROPPED: self._unlogged(),
            families.WEB_RELOADED: node.web_reloaded,
            families.PODS: node.inventory.pods,
        }
        for spec, value in values.items():
            yield spec.family({(): value})

    def _stream(self) -> Iterator[Metric]:
        node = self._node
        yield _one_of(families.STREAM_STATE, node.stream.state)
        yield _one_of(families.KERNEL_WITNESS, node.kernel.state)
        yield _one_of(families.OOM_WITNESS, node.oom.state)
        yield _one_of(families.KUBELET_PODS, node.pods.state)
        counted: tuple[tuple[Spec, Iterable[Enum | str], Mapping[Any, float]], ...] = (
            (families.KUBELET_PODS_ENDS, [each.value for each in PodsEnd], node.pods.ends),
            (families.STREAM_DISCONNECTS, _DISCONNECTS, node.stream.ends),
            (families.RELIST_ERRORS, _GRPC_CODES, node.relist_errors),
            (families.CALLS, Call, node.calls),
            (families.CALL_SECONDS, Call, node.call_seconds),
            (families.LIST_BYTES, (Call.SANDBOXES, Call.CONTAINERS), node.list_bytes),
            (families.MALFORMED, Malformed, node.malformed),
            (families.UNTIMED, Untimed, node.untimed),
            (families.WEB_REFUSALS, Refusal, node.refusals),
        )
        for spec, names, counts in counted:
            words = {each: each.value if isinstance(each, Enum) else each for each in names}
            yield spec.family({(word,): counts.get(each, 0) for each, word in words.items()})
        kinds = product(EventType, ObjectKind)
        received = {(event.name, kind.value): node.received[event, kind] for event, kind in kinds}
        yield families.EVENTS_RECEIVED.family(received)


def _one_of(spec: GaugeSpec, state: Enum) -> Metric:
    """1 for that state, 0 for all others."""
    return spec.family({(each.value,): each is state for each in type(state)})


def new_registry() -> CollectorRegistry:
    """A registry with the process and python collectors of every Python exporter."""
    disable_created_metrics()  # type: ignore[no-untyped-call] # the library's own gap
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def exemplar_of(finding: Finding, wall: float) -> Exemplar:
    """An exemplar of value 1 at unix time `wall`, which names the finding's container."""
    return Exemplar(exemplar_labels(finding), 1.0, wall)


def exemplar_labels(finding: Finding) -> dict[str, str]:
    """Namespace, pod and the first characters of the id, within OpenMetrics' 128 characters."""
    pod, identity = finding.pod or Pod(), finding.container_id[:_SHORT_ID]
    room = _BOUND - len("namespace" + "pod" + "container_id" + identity)
    namespace = pod.namespace[:room]
    name = pod.name[: room - len(namespace)]
    return {"namespace": namespace, "pod": name, "container_id": identity}
