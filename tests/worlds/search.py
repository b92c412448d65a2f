"""All short histories of a family of worlds, breadth-first, and long ones by chance.

Each distinct state of scene, ledger and oracle is visited once: two states are the same if all
that they hold is the same but for a shift in time.
"""

from __future__ import annotations

import pickle
import random
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from hashlib import blake2b
from io import BytesIO
from operator import attrgetter, itemgetter
from types import NoneType
from typing import Any, Final, TypeVar, cast

from exporter.model.facts import Fact, ProfileChosen, Relist
from exporter.model.findings import Cause, Verdict
from exporter.pleg.exits import Exits
from exporter.pleg.ledger import Ledger
from exporter.pleg.steps import Exit, StepState
from exporter.runtimes.known import profile_of
from exporter.runtimes.runtime import Profile
from tests.support.facts import ELSEWHERE, EPOCH_NS, MEASURED
from tests.support.oracle import Oracle, Outcome
from tests.worlds.scene import GRACE, SANDBOX, TICK, Rules, Scene, opening, steps, take

_IDS: Final = ("c1", "c2", SANDBOX)
OF_THE_KUBELET: Final = (Verdict.STALE, Verdict.UNKNOWN_TO_KUBELET)
# What the kubelet itself has to believe then.
_BELIEVED: Final = {
    Verdict.STALE: {"running"},
    Verdict.DISAGREES: {"ended otherwise", "ended for another reason"},
    Verdict.UNKNOWN_TO_KUBELET: {""},
}
_T = TypeVar("_T")
_MOST: Final = 3
# Steps of a history by chance, in which time may pass again and again.
STEPS: Final = 40
OFTEN: Final = (STEPS, STEPS)
_ANY: Final = -1
_STATES: Final = {state: state.value for state in StepState}
_CONSTANTS: Final[dict[int, object]] = {}
_WALL: Final = 1 << 50
_FINITE: Final = 1e12


@dataclass(frozen=True)
class Family:
    """All worlds with the same rules and runtime; `quick`, `long`: so many steps of each.

    `runtime`: its name and version.
    """

    name: str
    rules: Rules
    runtime: tuple[str, str]
    quick: int
    long: int

    def begun(self) -> tuple[Scene, list[Fact], Ledger, Oracle, str]:
        """After the prelude: the scene, the facts, the two that have taken them, what they said."""
        scene, facts = opening(self.rules)
        chosen = ProfileChosen(0.0, *self.runtime)
        ledger = Ledger(profile_of("", ""), GRACE)
        oracle = Oracle(profile_of(*self.runtime), GRACE)
        found, expected, said = _take(
            scene, ledger, oracle, [chosen, *facts], delays=self.rules.delays
        )
        assert found == expected, f"{self.name}: the two do not agree on the prelude"
        return scene, [chosen, *facts], ledger, oracle, f"{_text(found)}; {said}"

    def is_wrong(self, after: Scene, found: list[Outcome], expected: list[Outcome]) -> bool:
        """Whether the two do not agree, or the ledger accuses without proof."""
        # Lists that lack what there is, or go back, prove losses that there are none.
        is_honest = not {"missing", "created", "running"} & set(self.rules.troubles)
        return found != expected or (is_honest and any(_cries_wolf(after, each) for each in found))


@dataclass(frozen=True)
class Difference:
    """A shortest story in which the two do not agree, or the ledger accuses without proof."""

    family: str
    story: tuple[str, ...]
    facts: tuple[Fact, ...]
    ledger: tuple[str, ...]
    oracle: tuple[str, ...]

    def __str__(self) -> str:
        lines = (*self.story, "the facts:", *map(repr, self.facts))
        ledger, oracle = (", ".join(each) or "nothing" for each in (self.ledger, self.oracle))
        return "\n".join((f"{self.family}:", *lines, f"ledger: {ledger}", f"oracle: {oracle}"))


@dataclass
class Graph:
    """The distinct states that were visited, and where each step leads.

    State `n` has the steps from `first[n]` to `first[n + 1]`; those of the last level have none.
    `prelude`: what is found and said in it. `walks`: of each step of the histories by chance its
    label, its verdicts, and what else is said.
    """

    family: Family
    prelude: str = ""
    labels: list[str] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)
    first: array[int] = field(default_factory=lambda: array("I", [0]))
    label: array[int] = field(default_factory=lambda: array("I"))
    verdict: array[int] = field(default_factory=lambda: array("I"))
    said: array[int] = field(default_factory=lambda: array("I"))
    child: array[int] = field(default_factory=lambda: array("I"))
    parent: array[int] = field(default_factory=lambda: array("I", [0]))
    by: array[int] = field(default_factory=lambda: array("I", [0]))
    walks: list[list[tuple[int, int, int]]] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    @property
    def states(self) -> int:
        """How many distinct ones."""
        return sum(self.levels)

    def _folded(self, begin: _T, fold: Callable[[Iterator[tuple[str, str, _T]]], _T]) -> _T:
        """What a fold over all histories, from their ends to the beginning, makes of the first."""
        depth = len(self.levels) - 1
        last = [begin] * self.states
        for left in range(1, depth + 1):
            last = [fold(self._below(n, last)) for n in range(sum(self.levels[: depth - left + 1]))]
        return last[0]

    def _below(self, state: int, values: Sequence[_T]) -> Iterator[tuple[str, str, _T]]:
        for step in range(self.first[state], self.first[state + 1]):
            text = self._text(self.label[step], self.verdict[step], self.said[step])
            yield *text, values[self.child[step]]

    def _text(self, label: int, verdict: int, said: int) -> tuple[str, str]:
        return self.labels[label], f"{self.verdicts[verdict]}; {self.words[said]}"

    @property
    def histories(self) -> int:
        """How many there are of the full length."""
        return self._folded(1, lambda steps: sum(below for _, _, below in steps))

    @property
    def digest(self) -> str:
        """Of all verdicts in all histories, and of whatever else the ledger says after each step.

        It does not depend on which states are the same.
        """

        def fold(steps: Iterator[tuple[str, str, bytes]]) -> bytes:
            digest = blake2b(digest_size=12)
            for label, verdict, below in sorted(steps):
                digest.update(f"{label}|{verdict}|".encode() + below)
            return digest.digest()

        return self._folded(b"", fold).hex()

    @property
    def digest_of_walks(self) -> str:
        """The same of the histories by chance."""
        digest = blake2b(self.prelude.encode(), digest_size=12)
        for walk in self.walks:
            digest.update(repr([self._text(*step) for step in walk]).encode())
        return digest.hexdigest()

    @property
    def found(self) -> Counter[str]:
        """How many steps lead to each verdict."""
        kinds = Counter(self.verdict)
        found: Counter[str] = Counter()
        for verdict, times in kinds.items():
            for each in filter(None, self.verdicts[verdict].split(", ")):
                found[each.split(" ", 2)[2]] += times
        return found

    def story(self, state: int) -> list[str]:
        """The shortest way to that state."""
        steps: list[str] = []
        while state:
            steps.append(self.labels[self.by[state]])
            state = self.parent[state]
        return steps[::-1]


def explore(family: Family, depth: int, walks: int, *, ends: bool = True, seed: int = 0) -> Graph:
    """Visit all states up to that many steps; stops once `_MOST` differences are found.

    `walks`: so many long histories, too, for each `seed` others. `ends`: also distinguish the
    states after the last step, which takes as long again.
    """
    rules = family.rules
    scene, _, ledger, oracle, said = family.begun()
    graph = Graph(family, said)
    key = partial(_key, exact=rules.delays or rules.pauses != Rules().pauses, delays=rules.delays)
    seen = {key(scene, ledger, oracle): 0}
    frontier = [(scene, _kept(ledger, oracle))]
    labels, verdicts, words = map(_Names, (graph.labels, graph.verdicts, graph.words))
    number = 0
    for left in reversed(range(depth)):
        graph.levels.append(len(frontier))
        below: list[tuple[Scene, bytes]] = []
        for scene, blob in frontier:
            # Nobody learns of many steps: they change the scene alone.
            unchanged = _copied(blob)
            unseen = _take(scene, *unchanged, (), delays=rules.delays)
            for name, after, new in steps(scene, rules):
                ledger, oracle = _copied(blob) if new else unchanged
                found, expected, said = (
                    _take(after, ledger, oracle, new, delays=rules.delays) if new else unseen
                )
                by = labels[name]
                if family.is_wrong(after, found, expected):
                    graph.differences.append(_difference(family, [*graph.story(number), name]))
                    if len(graph.differences) >= _MOST:
                        return graph
                    continue
                state = key(after, ledger, oracle) if left or ends else _ANY
                child = seen.setdefault(state, len(seen))
                if child == len(graph.parent):
                    graph.parent.append(number)
                    graph.by.append(by)
                    below.append((after, _kept(ledger, oracle) if left and new else blob))
                graph.label.append(by)
                graph.verdict.append(verdicts[_text(found)])
                graph.said.append(words[said])
                graph.child.append(child)
            graph.first.append(len(graph.child))
            number += 1
        frontier = below
    graph.levels.append(len(frontier))
    _wander(graph, walks, seed)
    return graph


def _wander(graph: Graph, walks: int, seed: int) -> None:
    """Let so many histories happen by chance, from the beginning; the same ones for a seed."""
    family, chance = graph.family, random.Random(f"{graph.family.name}{seed or ''}")
    labels, verdicts, words = map(_Names, (graph.labels, graph.verdicts, graph.words))
    for _ in range(walks):
        scene, _, ledger, oracle, _ = family.begun()
        scene = scene._replace(waits=OFTEN)
        graph.walks.append(walk := [])
        for _ in range(STEPS):
            following = sorted(steps(scene, family.rules), key=itemgetter(0))
            name, scene, new = chance.choice(following)
            found, expected, said = _take(scene, ledger, oracle, new, delays=family.rules.delays)
            walk.append((labels[name], verdicts[_text(found)], words[said]))
            if family.is_wrong(scene, found, expected):
                story = [graph.labels[label] for label, _, _ in walk]
                graph.differences.append(_shortest(family, story))
                if len(graph.differences) >= _MOST:
                    return
                break


def _shortest(family: Family, story: Sequence[str]) -> Difference:
    """Leave out steps as long as the two do not agree after what is left."""
    found, at = _difference(family, story), 0
    while at < len(found.story):
        try:
            found, at = _difference(family, found.story[:at] + found.story[at + 1 :]), 0
        except ValueError:
            at += 1
    return found


def _difference(family: Family, story: Sequence[str]) -> Difference:
    """After which step the two do not agree first; ValueError if it cannot happen, or they do."""
    scene, facts, ledger, oracle, _ = family.begun()
    scene = scene._replace(waits=OFTEN)
    for number, name in enumerate(story, 1):
        scene, new = take(scene, family.rules, name)
        facts += new
        found, expected, _ = _take(scene, ledger, oracle, new, delays=family.rules.delays)
        if family.is_wrong(scene, found, expected):
            pair = tuple(map(_line, found)), tuple(map(_line, expected))
            return Difference(family.name, tuple(story[:number]), tuple(facts), *pair)
    raise ValueError("they agree")


class _Pickler(pickle.Pickler):
    """Copies only what changes: constants are the same objects afterwards."""

    def reducer_override(self, value: object) -> Any:
        if not isinstance(value, Enum | Profile | type):
            return NotImplemented
        _CONSTANTS[id(value)] = value
        return _constant, (id(value),)


def _constant(number: int) -> object:
    return _CONSTANTS[number]


def _kept(ledger: Ledger, oracle: Oracle) -> bytes:
    _Pickler(blob := BytesIO(), 5).dump((ledger, oracle))
    return blob.getvalue()


def _copied(blob: bytes) -> tuple[Ledger, Oracle]:
    return cast("tuple[Ledger, Oracle]", pickle.loads(blob))  # noqa: S301 - our own


class _Names(dict[str, int]):
    """Numbers for names."""

    def __init__(self, names: list[str]) -> None:
        super().__init__({name: number for number, name in enumerate(names)})
        self._names = names

    def __missing__(self, name: str) -> int:
        self[name] = number = len(self._names)
        self._names.append(name)
        return number


def _take(
    scene: Scene, ledger: Ledger, oracle: Oracle, facts: Iterable[Fact], *, delays: bool
) -> tuple[list[Outcome], list[Outcome], str]:
    """What the ledger finds, what the oracle expects, and all else that the ledger says.

    That includes the states of its steps, which evidence shows. The ledger reads the wall clock as
    it was set; the oracle is told when things happened.
    """
    found: list[Outcome] = []
    expected: list[Outcome] = []
    said: list[object] = []
    for fact in facts:
        taken = ledger.judge(scene.read(fact))
        findings = taken.findings
        if isinstance(fact, Relist):
            said += [[each.id for each in fact.changed], sorted(fact.gone), taken.doubts]
        else:
            said += [taken.doubts, taken.kind.value, taken.copy]
            said += [any(each.verdict is Verdict.BACKLOG for each in findings)]
        judged = (f for f in findings if f.verdict not in MEASURED)
        found += [(f.container_id, f.event, f.verdict, f.cause, f.before) for f in judged]
        said += sorted(f"{f.container_id} {f.name} {f.kind} {f.pod} {f.rule}" for f in findings)
        if delays:
            said += [taken.untimed, *(f for f in findings if f.verdict in MEASURED)]
        expected += oracle.judge(fact)
    haunted = (ledger.number(verdict) for verdict in (Verdict.GHOST, Verdict.STRAY))
    entries = filter(None, map(ledger.known, _IDS))
    said += [[_STATES[step.state] for step in entry.steps] for entry in entries if entry.has_steps]
    said += [ledger.unresolved, ledger.live, ledger.remembered, ledger.stalls, *haunted]
    wrong = {each.value: ledger.number(each) for each in OF_THE_KUBELET}
    said += [wrong] * any(wrong.values())
    return _sorted(found), _sorted(expected), repr(said)


def _sorted(outcomes: list[Outcome]) -> list[Outcome]:
    mine = [each for each in outcomes if each[0] != ELSEWHERE]
    return sorted(mine, key=_line) if len(mine) > 1 else mine


def _text(outcomes: Iterable[Outcome]) -> str:
    return ", ".join(map(_line, outcomes))


def _line(outcome: Outcome) -> str:
    object_id, event, verdict, cause, before = outcome
    of = f"{object_id} {event.label} {verdict.value}"
    return of + (f" {cause.value}" if cause else "") + " before" * before


def _cries_wolf(scene: Scene, outcome: Outcome) -> bool:
    """Whether the runtime or the kubelet is accused of what it did not do."""
    object_id, event, verdict, cause, _ = outcome
    if verdict in _BELIEVED:
        return scene.believed[int(object_id[1:]) - 1] not in _BELIEVED[verdict]
    if verdict is Verdict.GHOST:
        return any(object_id == f"c{n + 1}" for n in scene.away)
    if verdict is not Verdict.MISSED or cause is not Cause.SILENT:
        return False
    if object_id in scene.slow:
        # The blind spot of the page: a start that failed after more than two seconds.
        return False
    lost = {(each, what.announces) for each, what, up in scene.lost if up}
    held = {(each.object_id, each.type.announces) for each in scene.held}
    return (object_id, event) not in lost | held


# --- which states are the same ------------------------------------------------


def _key(scene: Scene, ledger: Ledger, oracle: Oracle, *, exact: bool, delays: bool) -> int:
    """A number for all that these hold, but for a shift in time.

    `exact`: each tick counts. `delays`: so does what only delays are made of.
    """
    flat: list[object] = []
    _flatten((scene, ledger, oracle), flat, {}, delays=delays)
    now = scene.now
    times = {value for value in flat if type(value) is float and abs(value) < _FINITE}
    # Else the order counts, and how many half seconds apart it is.
    unit, more = (TICK, 0.5) if exact else (0.5, 1.25)
    ranks = {at: (rank, int((now - at) / unit + more)) for rank, at in enumerate(sorted(times))}
    return hash(
        tuple([ranks.get(value, value) if type(value) is float else value for value in flat])
    )


_PLAIN, _NUMBER, _SET, _MAP, _SEQUENCE, _OBJECT, _DELAY, _CONSTANT = range(8)


@cache
def _kind(kind: type) -> int:
    if issubclass(kind, bool | str | float | Enum | NoneType):
        return _PLAIN
    if issubclass(kind, Profile):
        return _CONSTANT
    if issubclass(kind, Exits | Exit):
        return _DELAY
    kinds = {
        int: _NUMBER,
        set: _SET,
        frozenset: _SET,
        dict: _MAP,
        tuple: _SEQUENCE,
        list: _SEQUENCE,
    }
    return next((number for base, number in kinds.items() if issubclass(kind, base)), _OBJECT)


@cache
def _getter(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    if is_dataclass(kind):
        return attrgetter(*(each.name for each in fields(kind)))
    return lambda value: tuple(vars(value).values())


def _flatten(
    values: Iterable[Any], flat: list[object], known: dict[int, int], *, delays: bool
) -> None:
    """Append all that these values hold, in a fixed order; an object that came before by number."""
    for value in values:
        kind = _kind(value.__class__)
        if kind == _PLAIN:
            flat.append(value)
        elif kind == _NUMBER:
            flat.append((value - EPOCH_NS) / 1e9 if value > _WALL else value)
        elif kind == _SET:
            flat.append(frozenset(value))
        elif kind == _MAP:
            names = sorted(value)
            flat.append(len(names))
            flat.extend(names)
            _flatten([value[name] for name in names], flat, known, delays=delays)
        elif kind == _SEQUENCE:
            flat.append(len(value))
            _flatten(value, flat, known, delays=delays)
        elif id(value) in known:
            flat.append(known[id(value)])
        elif kind == _OBJECT or (kind == _DELAY and delays):
            known[id(value)] = len(known)
            _flatten(_getter(value.__class__)(value), flat, known, delays=delays)
