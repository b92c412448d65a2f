"""One scraped process over time: its series as straight pieces, in promtool's notation."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

# Their values are times, and move with the time that a test begins at.
CLOCKS: Final = frozenset({"process_start_time_seconds"})
MINUTE: Final = 60
# A day before the first scrape.
BEGAN: Final = -86400.0

Key = tuple[str, tuple[tuple[str, str], ...]]


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
            values = " ".join(self._written(name, pieces, grid, begin, end))
            yield {"series": f"{name}{{{text}}}", "values": values}

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
