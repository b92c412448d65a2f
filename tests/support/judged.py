"""An exporter as Prometheus scrapes it: its conditions are what the catalogue says of it."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from exporter.conditions import catalogue
from exporter.conditions.account import WINDOW_SECONDS, Account
from exporter.conditions.condition import Present
from exporter.metrics.families import NODE_CONDITION
from exporter.model.events import Lifecycle
from exporter.model.findings import Verdict, Why
from exporter.model.labels import StreamState
from tests.support.scraped import MINUTE, Piece, Target

STREAMING: Final = Present(answers=True, stream=StreamState.STREAMING)
# Seconds between two looks at the node, while its window changes.
_LOOK: Final = 30
# What an account counts: findings, or one of its other numbers by name.
Seen = tuple[Verdict, Lifecycle, Why | None] | str


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
        """With the conditions that hold by what it saw."""
        for name, pieces in self._conditions().items():
            self.series[NODE_CONDITION.name, (("condition", name),)] = pieces
        return super(Exporter, self).notation(cluster, grid, begin, end)

    def _conditions(self) -> dict[str, list[Piece]]:
        """Whether each holds, over time."""
        found: dict[str, list[Piece]] = {}
        if self.whole:
            found = {each.name: [Piece(0, 0)] for each in catalogue.ALL}
        held: list[tuple[float, float, frozenset[str]]] = []
        for at, until in self._looks():
            born = max(birth for birth in self._births if birth <= at)
            since = max(at - WINDOW_SECONDS, born)
            account, present = self._account(since, at), self._present(at)
            seconds = Counter[str]()
            for began, ended, names in held:
                seconds.update(dict.fromkeys(names, max(0.0, ended - max(began, since))))
            holding = {it.name for it in catalogue.holding(account, present, seconds)}
            for name in holding - found.keys():
                found[name] = [Piece(0, 0)]
            for name, pieces in found.items():
                if pieces[-1].value != (name in holding):
                    pieces.append(Piece(at, float(name in holding)))
            held = [each for each in held if each[1] > since]
            held.append((at, until, catalogue.now(account, present)))
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
