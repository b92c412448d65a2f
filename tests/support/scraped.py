"""One scraped process over time: its series as straight pieces, in promtool's notation.

An exporter's conditions are what the catalogue says of it.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from exporter.conditions import catalogue
from exporter.conditions.account import WINDOW_SECONDS, Account
from exporter.conditions.condition import Present
from exporter.metrics.families import NODE_CONDITION
from exporter.model.events import Lifecycle
from exporter.model.findings import Verdict, Why
from exporter.model.labels import StreamState

# Their values are times, and move with the time that a test begins at.
CLOCKS: Final = frozenset({"process_start_time_seconds"})
MINUTE: Final = 60
# A day before the first scrape.
BEGAN: Final = -86400.0

STREAMING: Final = Present(answers=True, stream=StreamState.STREAMING)
# Seconds between two looks at the node, while its window changes.
_LOOK: Final = 30
# What an account counts: findings, or one of its other numbers by name.
Seen = tuple[Verdict, Lifecycle, Why | None] | str
Key = tuple[str, tuple[tuple[str, str], ...]]
# Conditions over time, by all that an exporter saw.
_HELD: Final[dict[str, dict[str, list["Piece"]]]] = {}


@dataclass(frozen=True, slots=True)
class Piece:
    """From `since` on: a value, and its growth per second."""

    since: float
    value: float
    growth: float = 0.0

    def at(self, moment: float) -> float:
        return self.value + self.growth * (moment - self.since)


@dataclass(frozen=True, slots=True)
class Absence:
    """A stretch without samples: scrapes fail, Prometheus is away, or the target is gone."""

    since: float
    until: float
    how: str


@dataclass(slots=True)
class Target:
    """One process, scraped every so many seconds (`every`), the first time after `phase`."""

    job: str
    node: str
    instance: str = ""
    every: int = MINUTE
    phase: int = 0
    series: dict[Key, list[Piece]] = field(default_factory=dict)
    counters: set[str] = field(default_factory=set)
    absences: list[Absence] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    _plan: list[tuple[float, Callable[[float], None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gauge("up", 1)
        self.gauge("process_start_time_seconds", BEGAN)

    def gauge(self, name: str, value: float, growth: float = 0, /, **labels: str) -> None:
        """A series that begins with this value, and grows by so much a second."""
        self.series[name, tuple(sorted(labels.items()))] = [Piece(0, value, growth)]

    def counter(self, name: str, a_minute: float = 0, /, **labels: str) -> None:
        """A series that grows steadily, and begins at 0 again after a restart."""
        self.counters.add(name)
        self.gauge(name, 0, a_minute / MINUTE, **labels)

    # What happens to it, from a minute on.

    def each(
        self, at: float, name: str, change: Callable[[Piece], Piece], /, **labels: str
    ) -> None:
        """Every series of that name and labels goes on in another way."""
        wanted = set(labels.items())

        def now(moment: float) -> None:
            found = [v for (n, has), v in self.series.items() if n == name and wanted <= set(has)]
            assert found, f"{self.instance} has no {name} {labels}"
            for pieces in found:
                last = pieces[-1]
                reached = replace(last, since=moment, value=last.at(moment))
                pieces.append(replace(change(reached), since=moment))

        self._plan.append((at * MINUTE, now))

    def put(self, at: float, name: str, value: float, /, **labels: str) -> None:
        self.each(at, name, lambda _: Piece(0, float(value)), **labels)

    def add(self, at: float, name: str, amount: float, /, **labels: str) -> None:
        self.each(at, name, lambda it: replace(it, value=it.value + amount), **labels)

    def grow(self, at: float, name: str, a_minute: float, /, **labels: str) -> None:
        more = a_minute / MINUTE
        self.each(at, name, lambda it: replace(it, growth=it.growth + more), **labels)

    def pace(self, at: float, name: str, a_minute: float, /, **labels: str) -> None:
        """So much with each minute."""
        self.each(at, name, lambda it: replace(it, growth=a_minute / MINUTE), **labels)

    def freeze(self, at: float, name: str, /, **labels: str) -> None:
        self.pace(at, name, 0, **labels)

    def restart(self, at: float, minutes: float = 0) -> None:
        """The process ends, and starts again after so long: every counter is 0."""
        self.unscraped(at, minutes)
        at += minutes
        for name in self.counters:
            self.each(at, name, lambda it: replace(it, value=it.value * 0))
        self.put(at, "process_start_time_seconds", at * MINUTE)

    def unscraped(self, at: float, minutes: float = math.inf) -> None:
        """Scrapes fail for so long: `up` is 0, and everything else is gone."""
        self._absent(at, minutes, "failed")

    def forgotten(self, at: float, minutes: float) -> None:
        """Prometheus itself is away for so long."""
        self._absent(at, minutes, "away")

    def vanish(self, at: float) -> None:
        """The target is removed. At minute 0: there was none."""
        self._absent(at, math.inf, "gone")

    def appear(self, at: float) -> None:
        """The target is new, and its process half a minute old."""
        self.absences.append(Absence(-math.inf, at * MINUTE, "away"))
        self.restart(at)
        self.put(at, "process_start_time_seconds", at * MINUTE - 30)

    def _absent(self, at: float, minutes: float, how: str) -> None:
        self.absences.append(Absence(at * MINUTE, (at + minutes) * MINUTE, how))

    def without(self, *names: str) -> None:
        """There are no series of these names, or, by `name value`, with that value of a label."""
        self.hidden.update(names)

    def notation(
        self, cluster: str, grid: int, begin: float, end: float
    ) -> Iterator[dict[str, str]]:
        """What promtool reads of these seconds, one value for each `grid` of them."""
        mine = {"job": self.job, "node": self.node, "instance": self.instance or self.node}
        if cluster:
            mine["cluster"] = cluster
        for at, change in sorted(self._plan, key=lambda each: each[0]):
            change(at)
        self._plan.clear()
        for (name, labels), pieces in self.series.items():
            if not self.hidden.isdisjoint({name, *(f"{name} {value}" for _, value in labels)}):
                continue
            text = ", ".join(f'{k}="{v}"' for k, v in sorted((mine | dict(labels)).items()))
            values = list(self._written(name, pieces, grid, begin, end))
            # Half of all would be of nodes that are not there yet, or have nothing to say.
            if any(not it.startswith("_") for it in values):
                yield {"series": f"{name}{{{text}}}", "values": " ".join(values)}

    def _written(
        self, name: str, pieces: list[Piece], grid: int, begin: float, end: float
    ) -> Iterator[str]:
        """Straight stretches in promtool's short form, if there is a scrape at each value."""
        # A series that does not exist is NaN.
        edges = {begin, end, *(piece.since for piece in pieces)}
        edges.update(edge for each in self.absences for edge in (each.since, each.until))
        gap, scraped = self.every // grid - 1, False
        if self.phase:
            yield f"_x{self.phase // grid}"
        for since, until in pairwise(sorted(edge for edge in edges if begin <= edge <= end)):
            first, last = (
                max(0, math.ceil((at - begin - self.phase) / self.every)) for at in (since, until)
            )
            if (number := last - first) < 1:
                continue
            now = [it for it in pieces if it.since <= since][-1]
            how = self._why_absent(since) or ("gone" if math.isnan(now.value) else "")
            if how and not (how == "failed" and name == "up"):
                mark = scraped and how != "away"
                yield f"{'stale ' if mark else ''}_x{number * (gap + 1) - mark}"
                scraped = False
                continue
            now = Piece(0, 0) if how else now
            moments = [begin + self.phase + k * self.every for k in range(first, last)]
            shift = begin if name in CLOCKS else 0
            values = [now.at(moment) - shift for moment in moments]
            if gap:
                yield from (f"{value:.10g} _x{gap}" for value in values)
            else:
                yield f"{values[0]:.10g}{now.growth * self.every:+.10g}x{number - 1}"
            scraped = True

    def _why_absent(self, moment: float) -> str:
        """Why there is no sample then; empty if there is one."""
        hows = {each.how for each in self.absences if each.since <= moment < each.until}
        return next((how for how in ("gone", "away", "failed") if how in hows), "")


@dataclass(slots=True)
class Exporter(Target):
    """shadow-pleg on a node. `whole`: whether conditions that never hold are scraped, too."""

    whole: bool = False
    _births: list[float] = field(default_factory=lambda: [-math.inf])
    # By what is seen: when, how often at once, and how often a second from then on.
    _counts: dict[Seen, list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _rates: dict[Seen, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    _presents: list[tuple[float, Mapping[str, Any]]] = field(default_factory=list)

    def sees(self, at: float, what: Seen, number: float) -> None:
        """So many more of it."""
        self._counts[what].append((at * MINUTE, number))

    def sees_steadily(self, at: float, what: Seen, a_minute: float) -> None:
        """So many with each minute from then on; at minute 0: since long ago."""
        self._rates[what].append((at * MINUTE if at else -math.inf, a_minute / MINUTE))

    def is_now(self, at: float, **present: object) -> None:
        self._presents.append((at * MINUTE, present))

    def restart(self, at: float, minutes: float = 0) -> None:
        super(Exporter, self).restart(at, minutes)
        self._births.append((at + minutes) * MINUTE)

    def notation(
        self, cluster: str, grid: int, begin: float, end: float
    ) -> Iterator[dict[str, str]]:
        """With the conditions that hold by what it saw, which is the same for many."""
        saw = repr((self.whole, self._births, self._counts, self._rates, self._presents))
        if saw not in _HELD:
            _HELD[saw] = self._conditions()
        for name, pieces in _HELD[saw].items():
            self.series[NODE_CONDITION.name, (("condition", name),)] = pieces
        return super(Exporter, self).notation(cluster, grid, begin, end)

    def _conditions(self) -> dict[str, list[Piece]]:
        """Whether each holds, over time."""
        found: dict[str, list[Piece]] = {}
        if self.whole:
            found = {each.name: [Piece(0, 0)] for each in catalogue.ALL}
        held: list[tuple[float, float, frozenset[str]]] = []
        holding, present_now, judged = set[str](), frozenset[str](), None
        for at, until in self._looks():
            born = max(birth for birth in self._births if birth <= at)
            since = max(at - WINDOW_SECONDS, born)
            account, present = self._account(since, at), self._present(at)
            seconds = Counter[str]()
            for began, ended, names in held:
                seconds.update(dict.fromkeys(names, max(0.0, ended - max(began, since))))
            if judged != (account, present, seconds):
                judged = account, present, seconds
                holding = {it.name for it in catalogue.holding(*judged)}
                present_now = catalogue.now(account, present)
            for name in holding - found.keys():
                found[name] = [Piece(0, 0)]
            for name, pieces in found.items():
                if pieces[-1].value != (name in holding):
                    pieces.append(Piece(at, float(name in holding)))
            held = [each for each in held if each[1] > since]
            held.append((at, until, present_now))
        return found

    def _looks(self) -> Iterator[tuple[float, float]]:
        """Each time at which something may be otherwise than before, and the next one."""
        changes = {
            at for each in (self._counts, self._rates) for of in each.values() for at, _ in of
        }
        changes |= {*self._births, *(at for at, _ in self._presents)}
        looks = {0.0}
        for change in changes:
            if change >= 0:
                first = change // _LOOK
                steps = WINDOW_SECONDS // _LOOK + 2
                looks |= {change, *((first + n) * _LOOK for n in range(1, int(steps)))}
        times = sorted(looks)
        return zip(times, [*times[1:], math.inf], strict=True)

    def _account(self, since: float, until: float) -> Account:
        seen = {
            what: round(self._number(what, since, until))
            for what in self._counts.keys() | self._rates.keys()
        }
        found = Counter({what: n for what, n in seen.items() if not isinstance(what, str)})
        others = {what: n for what, n in seen.items() if isinstance(what, str)}
        return Account(found, **others, seconds=min(WINDOW_SECONDS, until - since))

    def _number(self, what: Seen, since: float, until: float) -> float:
        number = sum(n for at, n in self._counts.get(what, ()) if since <= at <= until)
        rates = sorted(self._rates.get(what, ()), key=lambda each: each[0])
        ends = [*(at for at, _ in rates[1:]), math.inf]
        for (at, rate), end in zip(rates, ends, strict=False):
            number += rate * max(0.0, min(end, until) - max(at, since))
        return number

    def _present(self, at: float) -> Present:
        changes: dict[str, Any] = {}
        for since, change in sorted(self._presents, key=lambda each: each[0]):
            if since <= at:
                changes |= change
        return replace(STREAMING, **changes)
