"""The last 15 minutes in slots: what each witness saw, the findings, the subscription's state.

A listener of a `Chronicle`. Invariant: fixed in size, and only a few additions per fact. A finding
counts in the slot in which it was reached: a miss in that of the relist that judged it. Blind spot:
if the end of the stream was noticed late, the slots since it happened are marked, but counts
already in them stay.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from exporter.conditions.account import LAG_SECONDS, LATE_SECONDS, WINDOW_SECONDS, Account, Counts
from exporter.model import facts
from exporter.model.events import Announcement
from exporter.model.facts import Fact, OtherFact
from exporter.model.findings import Outcome, Verdict
from exporter.node.day import Day
from exporter.node.state import Node

_MEASURED: Final = Verdict.EXIT_ANNOUNCED
# Length of a slot.
SECONDS: Final = 10.0
SLOTS: Final = round(WINDOW_SECONDS / SECONDS)


@dataclass(slots=True)
class Slot:
    """Ten seconds. `number` times `SECONDS` is the monotonic time at which it begins.

    `kernel`: how many cgroups filled or emptied; `kubelet`: how many statuses changed. `ends`,
    `timed`, `slow`, `lags`: as in `Account`. `down`: the subscription was, for a moment at least.
    `held`: the names of the conditions that were seen to be so.
    """

    number: int
    announced: int = 0
    discarded: int = 0
    kernel: int = 0
    kubelet: int = 0
    ends: int = 0
    timed: int = 0
    slow: int = 0
    lags: int = 0
    down: bool = False
    held: set[str] = field(default_factory=set)
    found: Counts = field(default_factory=Counter)


class History:
    """Counts what a chronicle reports; and how often the stream of `node` ended.

    `ahead`: as `Day` has it, which remembers longer.
    """

    def __init__(self, node: Node, ahead: float = 0.0) -> None:
        self.day = Day(node, ahead)
        self._node = node
        self._slots: deque[Slot] = deque(maxlen=SLOTS)
        self._last = Slot(0)
        # Monotonic time at which the last slot ends; and the ends before it.
        self._over = float("-inf")
        self._ended = 0
        self._down = False
        # What the first read shows was there before, and is no change.
        self._cgroups_known = self._beliefs_known = False

    def took(self, fact: Fact, outcome: Outcome) -> None:
        """Add one fact, and its findings."""
        at = fact.received if isinstance(fact, Announcement) else facts.learnt(fact)
        if at >= self._over:
            self._begin(at)
        last = self._last
        if not isinstance(fact, Announcement):
            self._add(fact, at)
        elif not outcome.copy:
            last.announced += 1
        for verdict, event, _, _, _, _, cause, _, seconds, *_ in outcome.findings:
            last.found[verdict, event, cause] += 1
            if verdict is _MEASURED and seconds is not None:
                last.timed += 1
                last.slow += seconds > LATE_SECONDS

    def _add(self, fact: OtherFact, at: float) -> None:
        match fact:
            case facts.CgroupChanged():
                self._last.kernel += self._cgroups_known
            case facts.CgroupsRead() | facts.CgroupsLost():
                self._cgroups_known = isinstance(fact, facts.CgroupsRead)
            case facts.Believed():
                self._last.kubelet += len(fact.changed) * self._beliefs_known
            case facts.BeliefsShown() | facts.BeliefsLost():
                self._beliefs_known = isinstance(fact, facts.BeliefsShown)
            case facts.Discarded():
                self._last.discarded += fact.events
            case facts.StreamUp() | facts.StreamDown() | facts.StreamRefused():
                self._turn(at, down=isinstance(fact, facts.StreamDown))
            case _:
                pass

    def slots(self, now: float) -> tuple[Slot, ...]:
        """The last slots up to `now`, oldest first, no gaps. Read them at once: they change."""
        if now >= self._over:
            self._begin(now)
        self._count()
        return tuple(self._slots)

    def account(self, now: float) -> Account:
        """The account of the slots up to `now`."""
        slots = self.slots(now)
        found: Counts = Counter()
        for slot in slots:
            # Half of the time that a sum takes, which makes a new counter for each slot.
            for key, number in slot.found.items():
                found[key] += number
        return Account(
            found=found,
            received=sum(slot.announced for slot in slots),
            ends=sum(slot.ends for slot in slots),
            timed=sum(slot.timed for slot in slots),
            slow=sum(slot.slow for slot in slots),
            discarded=sum(slot.discarded for slot in slots),
            lags=sum(slot.lags for slot in slots),
            seconds=len(slots) * SECONDS,
        )

    def hold(self, now: float, names: Iterable[str]) -> None:
        """Remember that these conditions are seen to be so."""
        self.slots(now)[-1].held.update(names)

    def held(self, now: float) -> Mapping[str, float]:
        """For how many of the last seconds each was seen to be so."""
        seconds = Counter[str]()
        for slot in self.slots(now):
            seconds.update(slot.held)
        return {name: slots * SECONDS for name, slots in seconds.items()}

    def lagged(self, now: float, seconds: float) -> None:
        """This process woke up so late."""
        if seconds > LAG_SECONDS:
            self.slots(now)[-1].lags += 1

    def _count(self) -> int:
        """Count the ends in the last slot; returns how many there are in all."""
        ends = self._node.stream.ends
        # Not those that the exporter closed itself.
        now = ends.total() - ends["overflow"]
        self._last.ends = now - self._ended
        return now

    def _begin(self, at: float) -> None:
        self._ended = self._count()
        number = int(at // SECONDS)
        first = self._last.number + 1 if self._slots else number
        for each in range(max(first, number - SLOTS + 1), number + 1):
            self._last = Slot(each, down=self._down)
            self._slots.append(self._last)
        self._over = (number + 1) * SECONDS

    def _turn(self, at: float, *, down: bool) -> None:
        """The stream's state from `at` on, possibly in the past."""
        self._down = down
        number = int(at // SECONDS)
        for slot in reversed(self._slots):
            if slot.number < number:
                return
            slot.down = down or (slot.down and slot.number == number)
