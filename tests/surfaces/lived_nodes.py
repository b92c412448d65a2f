"""Nodes that lived a story, fact by fact, and were scraped meanwhile: for a Prometheus, and a page.

A story is a kind of time for each of three stretches, with quiet between them, so that what counts
at the end does not depend on where a window begins. Times are seconds of one clock; at its zero the
wall clock is at `EPOCH`.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

import structlog

from exporter.model.events import EventType, ListedState, Status
from exporter.model.facts import BeliefsShown, Believed, CgroupsRead, ProfileChosen, StreamRefused
from exporter.model.labels import StreamState
from exporter.node.judgement import Judge
from exporter.node.state import Node, RuntimeInfo
from exporter.runtimes.known import profile_of
from tests.support.exposition import Measured, measured, ours
from tests.support.facts import emptied, populated
from tests.support.node_life import EPOCH, Day
from tests.support.prometheus import Series
from tests.support.tape import POD

# A moment at which a slice of a report may end.
END = 2500
SCRAPE = 20
LOOK = 5
PERIOD = 10
# The last stretch is in the window of 15 minutes, the others are not.
STRETCHES = ((130, 700), (790, 1450), (1690, END))
# After the last birth: what is late has come by then, and the rules were evaluated since.
_SETTLED = 210


Act = tuple[float, Callable[[], object]]

# What a stretch of time is like.
Time = Enum(
    "Time",
    "FINE QUIET LOSES_ONE_EXIT LOSES_OTHERS LOSES BRINGS_NOTHING STALLS LATE DOWN FLAPS DISCARDS"
    " EXITS_LATE HANGS ENDS_DOWN GHOSTS STALE REFUSED SHARED",
)


@dataclass(slots=True)
class Life:
    """One node and its story. `number` is its name, and that of its runtime's version."""

    number: int
    story: tuple[Time, Time, Time]
    node: Node = field(default_factory=Node)
    scrapes: dict[tuple[tuple[str, str], ...], list[float]] = field(default_factory=dict)
    judge: Judge = field(init=False)

    @property
    def version(self) -> str:
        """Of its runtime: no other node has it."""
        minor = "1.7" if Time.SHARED in self.story else "2.1"
        return f"{minor}.{self.number}"

    def live(self) -> None:
        own = measured(self.node)
        self.judge = own.judge
        day = Day(own)
        day.chronicle.listen(self.judge.history.hear)
        teller = Teller(day, self.version, random.Random(self.number))
        scrapes: list[Act] = [
            (at, partial(self._scrape, own, at)) for at in range(0, END + 1, SCRAPE)
        ]
        scrapes += [(at, partial(own.judge.look, at)) for at in range(0, END + 1, LOOK)]
        for _, act in sorted(scrapes + teller.acts(self.story), key=lambda act: act[0]):
            act()

    def _scrape(self, own: Measured, at: int) -> None:
        own.now = at
        for family in ours(own.registry):
            for sample in family.samples:
                key = ("__name__", sample.name), *sorted(sample.labels.items())
                self.scrapes.setdefault(key, []).append(float(sample.value))

    def series(self) -> Iterator[Series]:
        times = range(int(EPOCH), int(EPOCH) + END + 1, SCRAPE)
        name = f"node-{self.number:03}"
        own = {"node": name, "job": "shadow-pleg", "instance": f"{name}:13386"}
        for key, values in self.scrapes.items():
            # A series that changed its labels, as the runtime's does once it is known.
            yield own | dict(key), times[-len(values) :], values
        yield own | {"__name__": "up"}, times, [1.0] * len(times)
        started = {"__name__": "process_start_time_seconds"}
        yield own | started, times, [EPOCH - 86_400.0] * len(times)


class Teller:
    """Tells a node's story: what happens when."""

    def __init__(self, day: Day, version: str, dice: random.Random) -> None:
        self.day, self.dice = day, dice
        self._names = 0
        stream = profile_of("containerd", version).stream
        day.chronicle.record(ProfileChosen(0.0, "containerd", version))
        day.node.runtime = RuntimeInfo("containerd", version, "v1", stream)
        day.node.relist_period = PERIOD

    def acts(self, story: Iterable[Time]) -> list[Act]:
        acts: list[Act] = [(0, partial(self.day.subscribe, 0.0))]
        times = list(story)
        for kind, (begin, end) in zip(times, STRETCHES, strict=True):
            acts += self._stretch(kind, begin, end)
        hangs = [s for kind, s in zip(times, STRETCHES, strict=True) if kind is Time.HANGS]
        for at in range(2, END + 1, PERIOD):
            hung = any(begin + 100 < at < end - 200 for begin, end in hangs)
            # One that hangs at the end hangs still.
            hung = hung or any(end == END and at > END - 100 for _, end in hangs)
            acts.append((at + 0.5, partial(self._hang if hung else self._relist, at + 0.5)))
        return acts

    def _relist(self, at: float) -> None:
        self.day.chronicle.record(CgroupsRead(at))
        self.day.node.relist_note = ""
        self.day.relist(at)

    def _hang(self, _at: float) -> None:
        self.day.node.relist_note = "ListPodSandbox: deadline_exceeded"
        self.day.node.relist_errors["deadline_exceeded"] += 1

    def _stretch(self, kind: Time, begin: int, end: int) -> Iterator[Act]:
        """Containers live one after another; what they announce depends on the kind."""
        if kind is Time.QUIET:
            return
        last = end - _SETTLED - 30
        births = [begin + 15.0 * n for n in range(int((last - begin) / 15))]
        chosen = self.dice.randrange(5, len(births) - 5)
        for n, at in enumerate(births):
            yield from self._container(kind, at, chosen=n == chosen, silent=n in range(10, 25))
        yield from self._watch(kind, begin, end)

    def _container(self, kind: Time, at: float, *, chosen: bool, silent: bool) -> Iterator[Act]:
        self._names += 1
        name, dice = f"c{self._names}", self.dice
        lost: set[EventType] = set()
        if kind is Time.LOSES:
            lost = {event for event in EventType if dice.random() < 0.15}
        if kind is Time.LOSES_OTHERS:
            lost = {EventType.STARTED} if dice.random() < 0.4 else set()
        if kind in {Time.LOSES_ONE_EXIT, Time.DISCARDS} and chosen:
            lost = {EventType.STOPPED}
        if kind is Time.DISCARDS and chosen:
            yield at + 22.1, partial(self.day.discard, at + 22.1)
        if kind is Time.BRINGS_NOTHING or (kind is Time.STALLS and silent):
            lost = set(EventType)
        delay = 45.0 if kind is Time.LATE else 0.1
        steps = (
            (EventType.CREATED, 0.0, ListedState.CREATED),
            (EventType.STARTED, 11.0, ListedState.RUNNING),
            (EventType.STOPPED, 22.0, ListedState.EXITED),
            (EventType.DELETED, 33.0, None),
        )
        for event, after, state in steps:
            yield at + after, partial(self._becomes, name, state)
            if event not in lost:
                late = 3.0 if kind is Time.EXITS_LATE and event is EventType.STOPPED else delay
                heard = at + after + late
                yield heard, partial(self._hear, event, name, heard, at + after)

    def _becomes(self, name: str, state: ListedState | None) -> None:
        if state is None:
            self.day.shown.pop(name, None)
        else:
            self.day.shown[name] = state

    def _hear(self, event: EventType, name: str, at: float, happened: float) -> None:
        node = self.day.node
        if node.stream.state is not StreamState.STREAMING:
            return
        ended = happened if event is EventType.STOPPED else None
        self.day.receive(event, name, at, made=at - 0.05, ended=ended)

    def _watch(self, kind: Time, begin: int, end: int) -> Iterator[Act]:
        day, middle = self.day, (begin + end) // 2
        outages = {
            Time.DOWN: [(middle, middle + 60)],
            Time.FLAPS: [(middle + 20 * n, middle + 20 * n + 2) for n in range(8)],
            Time.ENDS_DOWN: [(end - 120, END + 1 if end == END else end)],
        }
        for down, up in outages.get(kind, ()):
            yield down, partial(day.lose_stream, down)
            if up <= END:
                yield up, partial(day.subscribe, up)
        if kind is Time.REFUSED:
            yield begin, partial(self._refuse, begin)
            if end < END:
                yield end, partial(day.subscribe, end)
        if kind is Time.GHOSTS:
            yield from self._ghost(middle, END if end == END else end - 100)
        if kind is Time.STALE:
            yield from self._stale(begin, END if end == END else end - 100)

    def _refuse(self, at: float) -> None:
        self.day.chronicle.record(StreamRefused(at))
        self.day.node.stream.state = StreamState.REFUSED

    def _ghost(self, at: int, until: int) -> Iterator[Act]:
        day, name = self.day, f"ghost{at}"
        yield at, partial(self._becomes, name, ListedState.RUNNING)
        for event, after in ((EventType.CREATED, 0.1), (EventType.STARTED, 0.2)):
            yield at + after, partial(self._hear, event, name, at + after, at)
        yield at + 0.3, partial(day.chronicle.record, populated(name, at + 0.3, POD.uid))
        yield at + 30, partial(day.chronicle.record, emptied(name, at + 30))
        if until < END:
            yield until, partial(self._becomes, name, ListedState.EXITED)
            yield until + 0.1, partial(self._hear, EventType.STOPPED, name, until + 0.1, until)

    def _stale(self, at: int, until: int) -> Iterator[Act]:
        day, name = self.day, f"stale{at}"
        yield at, partial(self._becomes, name, ListedState.RUNNING)
        yield at + 20, partial(self._becomes, name, ListedState.EXITED)
        events = ((EventType.CREATED, 0.1), (EventType.STARTED, 0.2), (EventType.STOPPED, 20.1))
        for event, after in events:
            yield at + after, partial(self._hear, event, name, at + after, at + after)
        shown = (BeliefsShown(at), Believed(at, POD, (Status(name, ListedState.RUNNING),), ()))
        yield from ((at + 0.3, partial(day.chronicle.record, fact)) for fact in shown)
        for asked in range(at + 60, min(until, at + 200), 20):
            says = Believed(asked, POD, (), (), asked=True)
            yield asked, partial(day.chronicle.record, says)
        if until < END:
            yield until, partial(day.chronicle.record, Believed(until, POD, (), (name,)))


def lives(number: int) -> list[Life]:
    """Each kind of time by hand, alone at the end of a fine life; then random stories."""
    dice = random.Random(1)
    kinds = list(Time)
    stories = [(Time.FINE, Time.FINE, kind) for kind in kinds]
    stories += [(kind, kind, Time.FINE) for kind in kinds]
    while len(stories) < number:
        stories.append((dice.choice(kinds), dice.choice(kinds), dice.choice(kinds)))
    found = [Life(n, story) for n, story in enumerate(stories)]
    with structlog.testing.capture_logs():
        for life in found:
            life.live()
    return found
