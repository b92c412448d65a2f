"""The one door to a ledger: each fact is told, in the order in which it was taken.

A listener that hands the same facts in the same order to another ledger gets
the same findings. For that a relist, whose judgement others interrupt, is one
fact: what comes meanwhile waits until it is over. Here: order and telling. Not
here: what listeners make of it (`exporter.evidence`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from exporter.pleg.events import Announcement, Relist
from exporter.pleg.facts import (
    Changes,
    Discarded,
    Inquired,
    ProfileChosen,
    Relisted,
    StreamAsked,
    StreamDown,
    StreamRefused,
    StreamUp,
)
from exporter.pleg.profiles import profile_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from exporter.pleg.events import Inquiry, ObjectKind
    from exporter.pleg.facts import Aside, Fact, Told
    from exporter.pleg.findings import Finding
    from exporter.pleg.ledger import Ledger
    from exporter.pleg.profiles import Profile


class Listener(Protocol):
    """Hears what the ledger was told, and then what it found; it must be quick."""

    def fact(self, fact: Told) -> None:
        """The ledger has taken this fact."""

    def found(self, findings: Sequence[Finding]) -> None:
        """Findings that the last fact led to; the list is the caller's."""


def hand_over(ledger: Ledger, fact: Fact) -> list[Finding]:
    """Give a ledger one fact, whatever it is."""
    match fact:
        case Announcement():
            return ledger.announced(fact)
        case Relist():
            return ledger.relisted(fact)
        case Discarded(at, until, _):
            # Of several in a row, the first finds whom it concerns and the last is remembered.
            ledger.discarded(at)
            if until is not None:
                ledger.discarded(until)
        case Inquired(_, container_id, answer):
            ledger.inquired(container_id, answer)
        case ProfileChosen(_, name, version):
            ledger.profile = profile_of(name, version)
        case _:
            _hand_over_watching(ledger, fact)
    return []


def _hand_over_watching(
    ledger: Ledger, fact: StreamAsked | StreamUp | StreamDown | StreamRefused
) -> None:
    match fact:
        case StreamAsked(_, began_ns):
            ledger.stream_asked(began_ns)
        case StreamUp(at, began_ns):
            ledger.stream_up(at, began_ns)
        case StreamDown(at):
            ledger.stream_down(at)
        case _:
            ledger.stream_refused()


class Chronicle:
    """A ledger, and who listens to what it is told. Times are seconds, as the ledger's."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._listeners: tuple[Listener, ...] = ()
        # While a relist is judged: what came meanwhile.
        self._waiting: list[Aside] | None = None
        # Discards since the last fact: under a storm they are one fact, not thousands.
        self._drops = 0
        self._first_drop = self._last_drop = 0.0

    @property
    def profile(self) -> Profile:
        """The runtime's row, as the ledger applies it."""
        return self._ledger.profile

    @property
    def unresolved(self) -> int:
        """Events proven by the relist, not yet announced, not yet judged."""
        return self._ledger.unresolved

    def listen(self, listener: Listener) -> None:
        """Tell that one, too, from now on."""
        self._listeners = (*self._listeners, listener)

    def kind_of(self, container_id: str) -> ObjectKind:
        """What an id names, as far as anybody has told."""
        return self._ledger.kind_of(container_id)

    def is_copy(self, event: Announcement) -> bool:
        """Whether it only repeats what another subscription brought."""
        return self._ledger.is_copy(event)

    def take_doubts(self) -> tuple[str, ...]:
        """Containers of which only `ContainerStatus` can tell whether they ran; asked once."""
        return self._ledger.take_doubts()

    def announced(self, event: Announcement) -> list[Finding]:
        """Take one event of the stream; never while a relist is judged."""
        if self._drops:
            self.tell_drops()
        findings = self._ledger.announced(event)
        for listener in self._listeners:
            listener.fact(event)
            if findings:
                listener.found(findings)
        return findings

    def profile_chosen(self, at: float, name: str, version: str) -> Profile:
        """The runtime said who it is; its row, which applies from now on."""
        self._take(ProfileChosen(at, name, version))
        return profile_of(name, version)

    def stream_asked(self, at: float, began_ns: int) -> None:
        """A subscription begins at wall time `began_ns`: what was made before is backlog."""
        self._take(StreamAsked(at, began_ns))

    def stream_up(self, at: float, began_ns: int) -> None:
        """The subscription carries events since `at`; it began at wall time `began_ns`."""
        self._take(StreamUp(at, began_ns))

    def stream_down(self, at: float) -> None:
        """The subscription ended at `at`, or was never there."""
        self._take(StreamDown(at))

    def stream_refused(self, at: float) -> None:
        """There is no stream to hold to account."""
        self._take(StreamRefused(at))

    def inquired(self, at: float, container_id: str, answer: Inquiry) -> None:
        """What `ContainerStatus` said of one container."""
        self._take(Inquired(at, container_id, answer))

    def discarded(self, at: float) -> None:
        """This process dropped an event at `at` because its queue was full."""
        if self._waiting is None:
            self._ledger.discarded(at)
        if not self._drops:
            self._first_drop = at
        self._last_drop = at
        self._drops += 1

    def relisted(self, relist: Relist) -> list[Finding]:
        """Take one successful relist."""
        return [finding for findings in self.relisting(relist) for finding in findings]

    def relisting(self, relist: Relist) -> Iterator[list[Finding]]:
        """The same in small steps. Nothing may be announced before the last one is taken."""
        self.tell_drops()
        self._waiting = []
        gathered: deque[list[Finding]] = deque()
        told = False
        try:
            for findings in self._ledger.relisting(relist):
                if findings:
                    gathered.append(findings[:])
                yield findings
            self._tell(_difference(relist, self._ledger))
            told = True
            while gathered:
                self._tell_found(gathered.popleft())
                yield []
        finally:
            # Whoever gives up here ends the process: a fact without all its findings would mislead.
            for findings in gathered if told else ():
                self._tell_found(findings)
            self._let_in()

    def tell_drops(self) -> None:
        """Tell of the discards that no other fact has followed yet."""
        if not self._drops:
            return
        fact = Discarded(self._first_drop, self._last_drop, self._drops)
        self._drops = 0
        if self._waiting is None:
            self._tell(fact)
        else:
            self._waiting.append(fact)

    def _let_in(self) -> None:
        """A relist is over: hand on what waited for that, in its order."""
        self.tell_drops()
        waiting, self._waiting = self._waiting or [], None
        for fact in waiting:
            self._take(fact)

    def _take(self, fact: Aside) -> None:
        self.tell_drops()
        if self._waiting is not None:
            self._waiting.append(fact)
            return
        hand_over(self._ledger, fact)
        self._tell(fact)

    def _tell_found(self, findings: list[Finding]) -> None:
        for listener in self._listeners:
            listener.found(findings)

    def _tell(self, fact: Told) -> None:
        for listener in self._listeners:
            listener.fact(fact)


def _difference(relist: Relist, ledger: Ledger) -> Relisted:
    changes, ledger.changes = ledger.changes, Changes()
    return Relisted(
        relist.requested,
        relist.completed,
        relist.requested_wall_ns,
        len(relist.items),
        tuple(changes.listed),
        tuple(changes.gone),
    )
