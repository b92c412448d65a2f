"""One container's timeline from a series of facts, one line per moment.

Blind spot: facts that were dropped.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from operator import attrgetter
from typing import Any, Final

from exporter.model import facts
from exporter.model.events import Announcement, ListedState, Pod, Status
from exporter.pleg.entry import Entry

# Facts about one container.
Seen = Announcement | facts.Unread | facts.Inquired | facts.Killed | facts.CgroupChanged
_SECOND_NS: Final = 1_000_000_000
# For lengths below this many seconds: the unit in seconds, its name, and the decimals.
_LENGTHS: Final = (
    (0.00995, 1e-3, "ms", 1),
    (0.9995, 1e-3, "ms", 0),
    (119.95, 1, "s", 1),
    (math.inf, 60, "min", 1),
)
_OF_THE_WATCH: Final = {
    facts.StreamAsked: "a subscription was requested",
    facts.StreamUp: "the subscription carries events",
    facts.StreamUnproven: "only a renewed subscription is left, and it has brought no event yet",
    facts.StreamDown: "there is no subscription",
    facts.StreamRefused: "no subscription is intended: no event is expected",
    facts.Discarded: "{0.events} events of any container were dropped here: no room, or unreadable",
    facts.KillsCounted: "the node's OOM kills of processes since the first count: {0.number}",
    facts.CgroupsLost: "the cgroups cannot be observed any more",
    facts.BeliefsShown: "the kubelet has shown all its pods",
    facts.BeliefsLost: "the kubelet's pods cannot be watched any more",
    facts.ProfileChosen: "the runtime is {0.name} {0.version}",
    facts.ClockSet: "the wall clock was set by {0.seconds:+.3f} s",
}


@dataclass(frozen=True, slots=True)
class Clock:
    """The same moment as `monotonic` seconds and as `wall_ns`, unix nanoseconds."""

    monotonic: float
    wall_ns: int

    def wall(self, at: float) -> str:
        """A fact's time as ISO 8601 in UTC, with microseconds."""
        return iso(self.wall_ns + int((at - self.monotonic) * _SECOND_NS))


def iso(wall_ns: int) -> str:
    """Unix nanoseconds as ISO 8601 in UTC; `unknown` if outside the calendar."""
    try:
        moment = datetime.fromtimestamp(wall_ns // _SECOND_NS, UTC)
    except (ValueError, OverflowError, OSError):
        return "unknown"
    micros = wall_ns % _SECOND_NS // 1000
    return moment.replace(tzinfo=None, microsecond=micros).isoformat(timespec="microseconds") + "Z"


def lasting(seconds: float) -> str:
    """A length of time as a person reads it: `0.4 ms`, `12 ms`, `2.3 s`, `3.5 min`."""
    number, unit, digits = next(
        (seconds / size, unit, digits)
        for below, size, unit, digits in _LENGTHS
        if abs(seconds) < below
    )
    return f"{number:.{digits}f} {unit}"


class Witness(Enum):
    """The source of a moment."""

    RELIST = "relist"
    STREAM = "stream"
    STATUS = "status"
    KERNEL = "kernel"
    KUBELET = "kubelet"
    WATCH = "watch"
    LEDGER = "ledger"


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of a timeline."""

    # When the observer learnt it, in seconds of the facts' clock.
    at: float
    witness: Witness
    text: str
    # Whether it concerns the watch as a whole, or reports no change.
    aside: bool = False

    def document(self, clock: Clock, zero: float) -> dict[str, Any]:
        """The moment as printed in JSON; `seconds` counts from `zero`."""
        at, seconds = clock.wall(self.at), round(self.at - zero, 6)
        return {"at": at, "seconds": seconds, "witness": self.witness.value, "text": self.text}


class ContainerTimeline:
    """Turns the facts about one container, and its sandbox if that is known, into moments.

    `listed`: the container's state in the last list before the first fact, if there was one.
    """

    def __init__(
        self, container_id: str, sandbox_id: str = "", listed: ListedState | None = None
    ) -> None:
        self._id = container_id
        # How a text about each id begins.
        self.names = {container_id: ""}
        if sandbox_id and sandbox_id != container_id:
            self.names[sandbox_id] = "its sandbox: "
        self._state = listed
        self._known = listed is not None
        # Number and last time of the relists without a change since the last moment.
        self._same = 0
        self._last_same = 0.0
        # Each failed attempt to subscribe is a StreamDown, once a second for minutes.
        self._is_down = False

    def add(self, fact: facts.Fact) -> list[Moment]:
        """The moments that one more fact adds."""
        if isinstance(fact, facts.Relist | facts.Believed):
            return self._relisted(fact) if isinstance(fact, facts.Relist) else self._believed(fact)
        if isinstance(fact, facts.CgroupsRead) or (
            isinstance(fact, facts.StreamDown) and self._is_down
        ):
            return []
        if not isinstance(fact, Seen):
            if isinstance(fact, facts.StreamDown | facts.StreamUp):
                self._is_down = isinstance(fact, facts.StreamDown)
            text = _OF_THE_WATCH[type(fact)].format(fact)
            if isinstance(fact, facts.KillsCounted) and fact.number is None:
                text = "the node's OOM kills cannot be counted any more"
            return [*self.rest(), Moment(fact.at, Witness.WATCH, text, aside=True)]
        if fact.container_id not in self.names:
            return []
        self._known |= isinstance(fact, Announcement) and fact.container_id == self._id
        witness, text = _seen(fact)
        text = self.names[fact.container_id] + text
        return [*self.rest(), Moment(facts.learnt(fact), witness, text)]

    def rest(self) -> list[Moment]:
        """The relists without a change since the last moment, merged into one."""
        if not self._same:
            return []
        relists = "1 relist shows" if self._same == 1 else f"{self._same} relists show"
        self._same = 0
        shown = self._state.value if self._state is not None else "not listed"
        text = f"{relists} no change: still {shown}"
        return [Moment(self._last_same, Witness.RELIST, text, aside=True)]

    def _relisted(self, fact: facts.Relist) -> list[Moment]:
        moments: list[Moment] = []
        for item in fact.changed:
            if item.id in self.names:
                moments += self._changed(item.id, item.state, fact.completed)
        for gone in fact.gone:
            if gone in self.names:
                moments += self._changed(gone, None, fact.completed)
        if not moments and self._known:
            self._same += 1
            self._last_same = fact.completed
        return moments

    def _believed(self, fact: facts.Believed) -> list[Moment]:
        texts = [_shown(status) for status in fact.changed if status.id == self._id]
        if self._id in fact.gone:
            texts.append("no longer has its pod" if fact.removed else "no longer shows it")
        if not texts:
            return []
        return [*self.rest(), *(Moment(fact.at, Witness.KUBELET, text) for text in texts)]

    def _changed(self, object_id: str, state: ListedState | None, at: float) -> list[Moment]:
        moments = self.rest()
        text = f"listed {state.value}" if state is not None else "no longer listed"
        if object_id != self._id:
            text = f"its sandbox is {text}"
        else:
            if self._state is not None:
                text += f" (was {self._state.value})"
            self._state, self._known = state, True
        moments.append(Moment(at, Witness.RELIST, text))
        return moments


def container_of(container_id: str, sandbox_id: str, name: str, pod: Pod | None) -> dict[str, str]:
    """The fields of a container in a document."""
    pod = pod or Pod()
    return {
        "id": container_id,
        "name": name,
        "sandbox_id": sandbox_id,
        "namespace": pod.namespace,
        "pod": pod.name,
        "uid": pod.uid,
    }


def moments_of(container_id: str, entry: Entry | None, kept: list[facts.Fact]) -> list[Moment]:
    """The moments of a container, from the facts that are still kept."""
    sandbox_id = entry.sandbox_id if entry is not None else ""
    # If no kept relist changed its state, all of them showed the present one.
    listed = entry.state if entry is not None and not _is_relisted(container_id, kept) else None
    timeline = ContainerTimeline(container_id, sandbox_id, listed)
    moments = [moment for fact in kept for moment in timeline.add(fact)] + timeline.rest()
    # A list waits for a silent stream: events that came meanwhile precede it in `kept`.
    return sorted(moments, key=attrgetter("at"))


def _is_relisted(container_id: str, kept: list[facts.Fact]) -> bool:
    return any(
        container_id in fact.gone or any(item.id == container_id for item in fact.changed)
        for fact in kept
        if isinstance(fact, facts.Relist)
    )


def _seen(fact: Seen) -> tuple[Witness, str]:
    match fact:
        case Announcement():
            return Witness.STREAM, _announcement(fact)
        case facts.Unread():
            return Witness.STREAM, "an event came that could not be read"
        case facts.Inquired():
            said = fact.answer.value.replace("_", " ")
            return Witness.STATUS, f"ContainerStatus says: {said}"
        case facts.Killed():
            kills = f"OOM kills of processes: {fact.number}"
            return Witness.KERNEL, f"{kills}; whose limit: {fact.limit.value}"
        case facts.CgroupChanged():
            return Witness.KERNEL, "has processes" if fact.populated else "no longer has a process"


def _shown(status: Status) -> str:
    if status.state is ListedState.RUNNING:
        return "shows it running"
    reason = f" ({status.reason})" if status.reason else ""
    return f"shows it ended with exit code {status.exit_code}{reason}"


def _announcement(event: Announcement) -> str:
    text = f"announced {event.type.name} on subscription {event.stream}"
    if event.exit_code is not None:
        text += f" with exit code {event.exit_code} ({event.reason or 'no reason'})"
    times = (event.created_at_ns, "the runtime made it"), (event.ended_ns, "its finished_at")
    for stamp, what in times:
        if stamp and event.received_wall_ns:
            late = (event.received_wall_ns - stamp) / _SECOND_NS
            # It is before the time if the clock was set back.
            text += f", {lasting(abs(late))} {'after' if late >= 0 else 'before'} {what}"
    if event.flawed is not None:
        text += f", flawed: {', '.join(flaw.value for flaw in event.flawed.flaws)}"
    return text if event.kind is not None else f"{text}, without a sandbox status"
