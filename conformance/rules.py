"""A property: what is owed, by which source, and the function that finds its breaches.

The decorator makes a row of the function: its name is the property's, its docstring what is owed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from conformance.history import History


class Level(Enum):
    """OBSERVED: nobody owes it; the answer is told."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    OBSERVED = "OBSERVED"


class Breach(NamedTuple):
    """What is wrong, in words, and the history that shows it."""

    what: str
    story: tuple[str, ...] = ()


@dataclass(slots=True)
class Judged:
    """Breaches among so many `cases`. `note`: what was observed. `skipped`: why nothing was."""

    cases: int = 0
    breaches: list[Breach] = field(default_factory=list)
    note: str = ""
    skipped: str = ""

    @property
    def shortest(self) -> Breach:
        """The breach with the shortest history."""
        return min(self.breaches, key=lambda breach: len(breach.story))


Judge = Callable[[History], Judged]


@dataclass(frozen=True, slots=True)
class Property:
    """One row. `number`: of docs/conformance.md's list. `parts`: those that it needs one of.

    `of_recordings`: whether one that does not say what was done shows it.
    """

    name: str
    number: int
    group: str
    level: Level
    owed: str
    source: str
    parts: tuple[str, ...]
    of_recordings: bool
    judge: Judge

    def judged(self, history: History) -> Judged:
        """What the history says of it."""
        if history.findings is not None and not self.of_recordings:
            return Judged(skipped="a recording does not say what was done")
        missing = [history.skipped[part] for part in self.parts if part in history.skipped]
        if self.parts and len(missing) == len(self.parts):
            return Judged(skipped=missing[0])
        judged = self.judge(history)
        if not judged.cases and not judged.breaches and not judged.skipped:
            judged.skipped = "nothing of the kind happened"
        return judged


PROPERTIES: Final[dict[str, Property]] = {}


def row(
    number: int, group: str, level: Level, source: str, *parts: str, recorded: bool | None = None
) -> Callable[[Judge], Judge]:
    """Make a function a property of that group; one that needs no part is `recorded`, too."""

    def made(judge: Judge) -> Judge:
        name = judge.__name__.strip("_").replace("_", "-")
        owed = " ".join((judge.__doc__ or "").split())
        shown = not parts if recorded is None else recorded
        PROPERTIES[name] = Property(name, number, group, level, owed, source, parts, shown, judge)
        return judge

    return made


def each(
    history: History, ids: Iterable[str], wrong: Callable[[str], str], *streams: str
) -> Judged:
    """Judge these containers, one by one: `wrong` says what is wrong with one, "" if nothing is."""
    judged = Judged()
    for key in ids:
        judged.cases += 1
        if what := wrong(key):
            story = history.story(key, streams=streams) if streams else history.story(key)
            judged.breaches.append(Breach(what, story))
    return judged
