"""One container's timeline from a series of facts, one line per moment.

Selects the facts that bear on a container and words them. Blind spot: facts that were dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from exporter.pleg.entry import Entry
from exporter.pleg.events import Announcement, EventType, Lifecycle, Listed, ListedState
from exporter.pleg.facts import (
    Discarded,
    Inquired,
    ProfileChosen,
    RecordedFact,
    Relisted,
    StreamAsked,
    StreamDown,
    StreamUp,
    learnt,
)

_MILLI_NS: Final = 1e6


class Witness(Enum):
    """The source of a moment."""

    RELIST = "relist"
    STREAM = "stream"
    STATUS = "status"
    WATCH = "watch"
    LEDGER = "ledger"


@dataclass(frozen=True, slots=True)
class Moment:
    """`at`: when the observer learnt it, in the facts' seconds.

    `aside`: it concerns the watch as a whole, or reports no change.
    """

    at: float
    witness: Witness
    text: str
    aside: bool = False


@dataclass(slots=True)
class Timeline:
    """Reads facts in order and reports those that bear on one container.

    `sandbox_id`: its sandbox's id, if known; that sandbox's changes are reported, too.
    """

    container_id: str
    sandbox_id: str = ""
    _state: ListedState | None = None
    _named: bool = False
    _same: int = 0
    _last_same: Moment | None = None
    _names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._names = {self.container_id: ""}
        if self.sandbox_id and self.sandbox_id != self.container_id:
            self._names[self.sandbox_id] = "its sandbox "

    def read(self, facts: Iterable[RecordedFact]) -> list[Moment]:
        """All moments of these facts."""
        moments = [moment for fact in facts for moment in self.take(fact)]
        return moments + self.rest()

    def take(self, fact: RecordedFact) -> list[Moment]:
        """The moments that one more fact adds."""
        if isinstance(fact, Relisted):
            told = [Moment(fact.completed, Witness.RELIST, text) for text in self._listed(fact)]
            if not told and self._named:
                self._same += 1
                self._last_same = Moment(fact.completed, Witness.RELIST, self._shown(), aside=True)
        else:
            told = self._other(fact)
        return self.rest() + told if told else told

    def rest(self) -> list[Moment]:
        """The relists without a change since the last moment, merged into one."""
        last, many = self._last_same, self._same
        if last is None:
            return []
        self._last_same, self._same = None, 0
        relists = "1 relist shows" if many == 1 else f"{many} relists show"
        return [replace(last, text=f"{relists} no change: still {last.text}")]

    def _shown(self) -> str:
        return self._state.value if self._state is not None else "not listed"

    def _listed(self, fact: Relisted) -> Iterator[str]:
        for item in fact.changed:
            if item.id in self._names:
                yield self._change(item)
        for gone in fact.gone:
            if gone in self._names:
                yield self._went(gone)

    def _change(self, item: Listed) -> str:
        whose = self._names[item.id]
        if item.id != self.container_id:
            return f"{whose}is listed {item.state.value}"
        before = f" (was {self._state.value})" if self._state is not None else ""
        self._state, self._named = item.state, True
        return f"listed {item.state.value}{before}"

    def _went(self, gone: str) -> str:
        whose = self._names[gone]
        if gone != self.container_id:
            return f"{whose}is no longer listed"
        before = f" (was {self._state.value})" if self._state is not None else ""
        self._state, self._named = None, True
        return f"no longer listed{before}"

    def _other(self, fact: RecordedFact) -> list[Moment]:
        if isinstance(fact, Announcement):
            if fact.container_id not in self._names:
                return []
            self._named |= fact.container_id == self.container_id
            text = self._names[fact.container_id] + _announcement(fact)
            return [Moment(fact.received, Witness.STREAM, text)]
        if isinstance(fact, Inquired):
            if fact.container_id != self.container_id:
                return []
            text = f"asked, the runtime says: {fact.answer.value.replace('_', ' ')}"
            return [Moment(fact.at, Witness.STATUS, text)]
        return [Moment(learnt(fact), Witness.WATCH, _watching(fact), aside=True)]


def remembered(entry: Entry, moments: list[Moment]) -> list[Moment]:
    """Older moments that the ledger still knows but that are missing from `moments`."""
    had = {(moment.at, moment.witness) for moment in moments}
    known = []
    for event, step in zip(Lifecycle, entry.steps, strict=True):
        if step.announced is not None:
            name = EventType(int(event)).name
            text = f"announced {name} on subscription {step.stream}"
            known.append(Moment(step.announced, Witness.STREAM, text))
        if step.proven is not None:
            known.append(Moment(step.proven, Witness.RELIST, f"a list proved {event.label}"))
    lost = [moment for moment in known if (moment.at, moment.witness) not in had]
    return sorted(lost, key=lambda moment: moment.at)


def _announcement(event: Announcement) -> str:
    text = f"announced {event.type.name} on subscription {event.stream}"
    if event.created_at_ns and event.received_wall_ns:
        late = (event.received_wall_ns - event.created_at_ns) / _MILLI_NS
        text += f", {late:.1f} ms after the runtime made it"
    return text if event.kind is not None else f"{text}, without a sandbox status"


def _watching(fact: RecordedFact) -> str:
    match fact:
        case StreamAsked():
            return "a subscription was asked for"
        case StreamUp():
            return "the subscription carries events"
        case StreamDown():
            return "there is no subscription"
        case Discarded(_, _, events):
            return f"{events} events of any container were dropped here: the queue was full"
        case ProfileChosen(_, name, version):
            return f"the runtime is {name} {version}"
        case _:
            return "no subscription is meant to be: the stream owes nothing"
