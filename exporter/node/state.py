"""What is known of this node now, and the counts since the start.

The long-running tasks and `chronicle.Counting` write it; metrics and pages read it on request.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice
from typing import Final, Generic, TypeVar

import structlog

from exporter.conditions.account import lost_for_good
from exporter.conditions.sentences import NAMED
from exporter.model import labels
from exporter.model.events import EventType, Lifecycle, Listed, ListedState, ObjectKind
from exporter.model.findings import Cause, Finding, Untimed, Verdict, Why

_log = structlog.get_logger()

State = TypeVar("State", bound=Enum)
_MISSED: Final = Verdict.MISSED
# The states in which a source observes, at least in part.
_OBSERVING: Final[frozenset[Enum]] = frozenset(
    (
        labels.StreamState.STREAMING,
        *(labels.KernelWitness.WATCHING, labels.KernelWitness.POLLING),
        *(labels.OomWitness.COUNTING, labels.OomWitness.PARTLY),
        labels.KubeletPods.WATCHING,
    )
)


@dataclass(frozen=True, slots=True)
class RuntimeInfo:
    """The answer to `Version`, and what the profiles say about that runtime."""

    name: str
    version: str
    api_version: str
    stream: labels.StreamKind


def words_of(item: Listed) -> str:
    """`namespace/pod`, plus `/name` for a container; the item's id if its pod is not known."""
    pod = item.pod
    return "/".join(filter(None, (pod.namespace, pod.name, item.name))) if pod else item.id


def some_of(items: Iterable[Listed]) -> tuple[str, ...]:
    """The first few items in words, as many as a person reads."""
    return tuple(words_of(item) for item in islice(items, NAMED))


@dataclass(frozen=True, slots=True)
class Inventory:
    """How many objects the last relist listed, by state."""

    pods: int = 0
    sandboxes: Counter[ListedState] = field(default_factory=Counter)
    containers: Counter[ListedState] = field(default_factory=Counter)


def take_inventory(items: Iterable[Listed]) -> Inventory:
    """Count pods (by uid, else by sandbox) and objects by state."""
    pods, inventory = set(), Inventory()
    for item in items:
        if item.kind is ObjectKind.SANDBOX:
            pods.add((item.pod and item.pod.uid) or item.id)
            inventory.sandboxes[item.state] += 1
        else:
            inventory.containers[item.state] += 1
    return replace(inventory, pods=len(pods))


@dataclass(slots=True)
class Tally:
    """Findings counted by their labels."""

    counts: Counter[tuple[Verdict, Lifecycle, ObjectKind, Why | None]] = field(
        default_factory=Counter
    )
    # The newest MISSED for these labels, and its unix time.
    newest: dict[tuple[Lifecycle, ObjectKind, Why | None], tuple[Finding, float]] = field(
        default_factory=dict
    )
    # Sums of the measured delays.
    seconds: defaultdict[Verdict, float] = field(default_factory=lambda: defaultdict(float))
    # Contradictions that stood when observation began. They are not in `counts`: each restart
    # would count them again.
    before: Counter[Verdict] = field(default_factory=Counter)

    def add(self, finding: Finding, wall: float) -> None:
        """Count one finding; `wall` is unix time, for the exemplar."""
        verdict, event, kind, cause = finding.verdict, finding.event, finding.kind, finding.cause
        if finding.before:
            self.before[verdict] += 1
            return
        self.counts[verdict, event, kind, cause] += 1
        if finding.seconds is not None:
            self.seconds[verdict] += finding.seconds
        if verdict is _MISSED:
            self.newest[event, kind, cause] = (finding, wall)

    def mean_seconds(self, verdict: Verdict) -> float | None:
        """The average delay in findings of this verdict, in seconds; None before the first."""
        number = self.total(verdict)
        return self.seconds[verdict] / number if number else None

    @property
    def found(self) -> Counter[tuple[Verdict, Why | None]]:
        """All findings by verdict and cause, including those of `before`."""
        found = Counter[tuple[Verdict, Why | None]]()
        for (verdict, _, _, cause), number in self.counts.items():
            found[verdict, cause] += number
        for verdict, number in self.before.items():
            found[verdict, None] += number
        return found

    def lost(self, *causes: Cause) -> int:
        """Events lost for good since the start, by any of these causes."""
        return sum(
            lost_for_good(self.total(Verdict.MISSED, cause), self.total(Verdict.LATE, cause))
            for cause in causes
        )

    def total(self, verdict: Verdict, cause: Why | None = None) -> int:
        """Number of findings of one verdict, optionally of one cause."""
        return sum(
            number
            for (found, _, _, why), number in self.counts.items()
            if found is verdict and (cause is None or why is cause)
        )


@dataclass(slots=True)
class Witness(Generic[State]):
    """The state of one source of observations, and why; each change is logged once."""

    # Its name in the log.
    name: str
    state: State
    # Why it is in this state, in words and as a label; both may be empty.
    note: str = ""
    reason: str = ""
    # How often it ended, by reason.
    ends: Counter[str] = field(default_factory=Counter)
    # Whether to warn even if it has never worked.
    essential: bool = False
    # Failures since it last worked: each is logged once, however often it is retried.
    _said: set[tuple[State, str]] = field(default_factory=set)

    @property
    def works(self) -> bool:
        """Whether it observes."""
        return self.state in _OBSERVING

    def become(self, state: State, note: str = "", reason: str = "", **fields: object) -> None:
        """Enter this state; `fields` are for the log."""
        worked, is_news = self.works, (state, note) != (self.state, self.note)
        self.state, self.note, self.reason = state, note, reason
        if not is_news:
            return
        write = _log.warning if note and (self.works or worked or self.essential) else _log.info
        if self.works:
            self._said.clear()
        elif (state, reason or note) in self._said:
            write = _log.debug
        else:
            self._said.add((state, reason or note))
        why = {"reason": reason, "note": note}
        fields = {name: text for name, text in why.items() if text} | fields
        write(f"{self.name} {state.value}", **fields)


@dataclass(slots=True)
class Node:
    """The observed node. Times ending in `_wall` are unix seconds, the others monotonic."""

    began_wall: float = 0.0
    tally: Tally = field(default_factory=Tally)
    runtime: RuntimeInfo | None = None
    # The last relist's items, by id.
    listed: Mapping[str, Listed] = field(default_factory=dict)
    stream: Witness[labels.StreamState] = field(
        default_factory=lambda: Witness(
            "event stream", labels.StreamState.CONNECTING, essential=True
        )
    )
    # When the next attempt to subscribe is due; 0 while the stream is up.
    stream_retry_wall: float = 0.0
    stream_last_seen_wall: float = 0.0
    connections: int = 0
    received: Counter[tuple[EventType, ObjectKind]] = field(default_factory=Counter)
    untimed: Counter[Untimed] = field(default_factory=Counter)
    malformed: Counter[labels.Malformed] = field(default_factory=Counter)
    clock_steps: int = 0
    discards: int = 0
    discards_unreconciled: int = 0
    evidence_records: int = 0
    evidence_dropped: int = 0
    refusals: Counter[labels.Refusal] = field(default_factory=Counter)
    web_reloaded: bool = True
    relist_period: float = 0.0
    # Why the last relist failed; empty if it did not.
    relist_note: str = ""
    relist_reason: str = ""
    relist_errors: Counter[str] = field(default_factory=Counter)
    # The size of each list of the last successful relist, which took `relist_seconds`.
    list_bytes: Mapping[labels.Call, int] = field(default_factory=dict)
    calls: Counter[labels.Call] = field(default_factory=Counter)
    call_seconds: defaultdict[labels.Call, float] = field(
        default_factory=lambda: defaultdict(float)
    )
    # Containers, in words, whose last ContainerStatus timed out, by id.
    hanging: dict[str, str] = field(default_factory=dict)
    # Listed items that have a text that is not UTF-8, by id.
    garbled: Mapping[str, Listed] = field(default_factory=dict)
    relist_seconds: float = 0.0
    relist_succeeded: float | None = None
    relist_succeeded_wall: float = 0.0
    relist_begun: float | None = None
    kernel: Witness[labels.KernelWitness] = field(
        default_factory=lambda: Witness("kernel witness", labels.KernelWitness.OFF)
    )
    oom: Witness[labels.OomWitness] = field(
        default_factory=lambda: Witness("OOM kills", labels.OomWitness.OFF)
    )
    pods: Witness[labels.KubeletPods] = field(
        default_factory=lambda: Witness("kubelet's pods", labels.KubeletPods.OFF)
    )
    _inventory: tuple[Mapping[str, Listed], Inventory] | None = None

    @property
    def inventory(self) -> Inventory:
        """The objects of `listed`, counted once for each relist."""
        if self._inventory is None or self._inventory[0] is not self.listed:
            self._inventory = (self.listed, take_inventory(self.listed.values()))
        return self._inventory[1]

    def time_call(self, call: labels.Call, seconds: float) -> None:
        """Count a call to the runtime, whether it succeeded or not."""
        self.calls[call] += 1
        self.call_seconds[call] += seconds

    def count_discard(self) -> None:
        """Count an event that was dropped; the next relist makes up for it."""
        self.discards += 1
        self.discards_unreconciled += 1
