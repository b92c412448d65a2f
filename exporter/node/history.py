"""The last 15 minutes in slots: what each witness saw, the findings, the subscription's state.

Invariants: the size is fixed, and a fact costs only a few additions. A finding counts in the slot
in which the ledger reached it. Blind spot: if the end of the stream is noticed late, the slots
since then are marked as down, but keep their counts.
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
    """What happened in ten seconds."""

    # The slot begins at monotonic time `number * SECONDS`.
    number: int
    announced: int = 0
    discarded: int = 0
    # Cgroups that became populated or empty; the kubelet's container statuses that changed.
    kernel: int = 0
    kubelet: int = 0
    # As in `Account`.
    ends: int = 0
    timed: int = 0
    slow: int = 0
    lags: int = 0
    # The subscription was down, at least for a moment.
    down: bool = False
    # The names of the conditions that held at a look.
    held: set[str] = field(default_factory=set)
    found: Counts = field(default_factory=Counter)


class History:
    """Listens to a `Chronicle`, and counts the ends of the stream of `node`.

    `ahead`: see `Day`.
    """

    def __init__(self, node: Node, ahead: float = 0.0) -> None:
        self.day = Day(node, ahead)
        self._node = node
        self._slots: deque[Slot] = deque(maxlen=SLOTS)
        self._last = Slot(0)
        # Monotonic time at which the last slot ends; the stream's ends before that slot.
        self._over = float("-inf")
        self._ended = 0
        self._down = False
        # Until a first read is complete, what it shows is not a change.
        self._cgroups_known = self._beliefs_known = False

    def hear(self, fact: Fact, outcome: Outcome) -> None:
        """Add one fact, and its findings."""
        at = fact.received if isinstance(fact, Announcement) else facts.learnt(fact)
        if at >= self._over:
            self._begin(at)
        last = self._last
        if not isinstance(fact, Announcement):
            self._add(fact, at)
        elif not outcome.copy:
            last.announced += 1
        for finding in outcome.findings:
            last.found[finding.verdict, finding.event, finding.cause] += 1
            if finding.verdict is _MEASURED and finding.seconds is not None:
                last.timed += 1
                if finding.seconds > LATE_SECONDS:
                    last.slow += 1

    def _add(self, fact: OtherFact, at: float) -> None:
        match fact:
            case facts.CgroupChanged() if self._cgroups_known:
                self._last.kernel += 1
            case facts.CgroupsRead() | facts.CgroupsLost():
                self._cgroups_known = isinstance(fact, facts.CgroupsRead)
            case facts.Believed() if self._beliefs_known:
                self._last.kubelet += len(fact.changed)
            case facts.BeliefsShown() | facts.BeliefsLost():
                self._beliefs_known = isinstance(fact, facts.BeliefsShown)
            case facts.Discarded():
                self._last.discarded += fact.events
            case facts.StreamUp() | facts.StreamDown() | facts.StreamRefused():
                self._mark(at, down=isinstance(fact, facts.StreamDown))
            case _:
                pass

    def slots(self, now: float) -> tuple[Slot, ...]:
        """The slots up to `now`, oldest first, without gaps. Read them at once: they change."""
        if now >= self._over:
            self._begin(now)
        self._count()
        return tuple(self._slots)

    def account(self, now: float) -> Account:
        """The account of the slots up to `now`."""
        slots = self.slots(now)
        found: Counts = Counter()
        for slot in slots:
            # Takes half as long as adding counters, which makes a new one for each slot.
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
        """Remember that these conditions hold at monotonic time `now`."""
        self.slots(now)[-1].held.update(names)

    def held(self, now: float) -> Mapping[str, float]:
        """For how many seconds of these slots each condition held, by name."""
        seconds = Counter[str]()
        for slot in self.slots(now):
            seconds.update(slot.held)
        return {name: slots * SECONDS for name, slots in seconds.items()}

    def lagged(self, now: float, seconds: float) -> None:
        """Count a wake-up of this process that was `seconds` late, if that is too late."""
        if seconds > LAG_SECONDS:
            self.slots(now)[-1].lags += 1

    def _count(self) -> int:
        """Count the stream's ends in the last slot; returns the total of all time."""
        ends = self._node.stream.ends
        # After an overflow, the exporter itself closed the stream.
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

    def _mark(self, at: float, *, down: bool) -> None:
        """Set the stream's state from `at` on, which may lie in an earlier slot."""
        self._down = down
        number = int(at // SECONDS)
        for slot in reversed(self._slots):
            if slot.number < number:
                return
            slot.down = down or (slot.down and slot.number == number)
