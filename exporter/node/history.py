"""What is remembered of the node: the last 15 minutes in slots, and the last 24 hours in quarters.

Invariants: the size is fixed, and a fact costs only a few additions. A finding counts in the slot
in which the ledger reached it. Blind spots: a restart forgets the past; and if the end of the
stream is noticed late, the slots since then are marked as down, but keep their counts.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from exporter.conditions.account import (
    LAG_SECONDS,
    LATE_SECONDS,
    LOST,
    WINDOW_SECONDS,
    Account,
    Counts,
)
from exporter.conditions.catalogue import ALL, BY_NAME
from exporter.conditions.condition import Condition, Mood
from exporter.model import facts
from exporter.model.events import Announcement
from exporter.model.facts import Fact, OtherFact
from exporter.model.findings import Outcome, Verdict
from exporter.node.state import Node

_MEASURED: Final = Verdict.EXIT_ANNOUNCED
# Length of a slot.
SECONDS: Final = 10.0
SLOTS: Final = round(WINDOW_SECONDS / SECONDS)
QUARTER_SECONDS: Final = 900.0
QUARTERS: Final = 96
_STARTING: Final = BY_NAME["starting"]
_LOSSES: Final = tuple(BY_NAME[name] for name in ("stream_silent", "losing", "few_lost"))


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
    """The last 15 minutes: listens to a `Chronicle`, and counts the ends of the stream of `node`.

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


@dataclass(slots=True)
class Quarter:
    """A quarter of an hour, up to the last look in it."""

    # The quarter begins at `number * QUARTER_SECONDS` on `Day`'s clock.
    number: int
    # Names of conditions that held at a look.
    held: set[str] = field(default_factory=set)
    # Events lost for good: negative if more came late than were missed.
    lost: int = 0
    received: int = 0

    @property
    def mood(self) -> Mood:
        """The worst mood of the conditions that held."""
        moods = {BY_NAME[name].mood for name in self.held}
        return next((mood for mood in (Mood.BAD, Mood.UNSURE) if mood in moods), Mood.GOOD)


class Day:
    """The last 24 hours in quarters of an hour: which conditions held, and the counts of `node`.

    `ahead`: unix time minus monotonic time at the start, in seconds, so that quarters begin at full
    quarters of an hour UTC. They do not move if the clock is set.
    """

    def __init__(self, node: Node, ahead: float = 0.0) -> None:
        self._node = node
        self._ahead = ahead
        self._quarters: deque[Quarter] = deque(maxlen=QUARTERS)
        self._before = (0, 0)
        # Monotonic time of the first look.
        self.first = float("inf")

    def look(self, now: float, holding: Collection[Condition]) -> None:
        """Remember the conditions at monotonic time `now`, and the counts since the last look."""
        number, self.first = self.number(now), min(now, self.first)
        if not self._quarters or number > self._quarters[-1].number:
            self._quarters.append(Quarter(number))
        last, (lost, received) = self._quarters[-1], self._before
        # A process that has just begun knows nothing yet.
        if _STARTING not in holding:
            last.held.update(each.name for each in holding)
        tally = self._node.tally
        self._before = (tally.lost(*LOST) + tally.total(Verdict.GAP), self._node.received.total())
        last.lost += self._before[0] - lost
        last.received += self._before[1] - received

    def quarters(self, now: float) -> tuple[Quarter, ...]:
        """The quarters of the last 24 hours that had a look, oldest first."""
        first = self.number(now) - QUARTERS + 1
        return tuple(quarter for quarter in self._quarters if quarter.number >= first)

    def began(self, number: int) -> float:
        """The monotonic time at which quarter `number` begins."""
        return number * QUARTER_SECONDS - self._ahead

    def number(self, now: float) -> int:
        """The number of the quarter at monotonic time `now`."""
        return int((now + self._ahead) // QUARTER_SECONDS)


@dataclass(slots=True)
class Stretch:
    """Consecutive quarters in which a condition held."""

    condition: Condition
    # Numbers of the first and the last quarter.
    first: int
    last: int
    # Sums over the quarters in which this is the most urgent condition about losses.
    lost: int = 0
    received: int = 0


def stretches(quarters: Sequence[Quarter]) -> list[Stretch]:
    """The stretches of conditions that are not good, the latest first."""
    found: list[Stretch] = []
    going: dict[str, Stretch] = {}
    for quarter in quarters:
        held = [each for each in ALL if each.name in quarter.held and each.mood is not Mood.GOOD]
        loser = next((each for each in held if each in _LOSSES), None)
        for condition in held:
            last = going.get(condition.name)
            if last is None or last.last < quarter.number - 1:
                last = Stretch(condition, quarter.number, quarter.number)
                going[condition.name] = last
                found.append(last)
            last.last = quarter.number
            if condition is loser:
                last.lost += quarter.lost
                last.received += quarter.received
    # If stretches began and ended together, the most urgent one comes first.
    return sorted(found, key=lambda each: (-each.last, -each.first, ALL.index(each.condition)))
