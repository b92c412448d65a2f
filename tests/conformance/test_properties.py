"""Each property, seen failing once: a good history, broken in one place, breaks that one alone."""

from collections.abc import Callable
from itertools import product
from typing import Any, Final

import pytest

from conformance.history import LATER, MAIN, Act, Case, Connected, Heard, History, Shown
from conformance.judges import CONTROL, CONTROLS
from conformance.parts import ALONE, LOTS, TOGETHER
from conformance.properties import PROPERTIES
from exporter.cri import runtime_v1_pb2 as pb
from exporter.model.events import Announcement, EventType, Flawed, ObjectKind, Pod
from exporter.model.labels import Flaw
from tests import table

_WALL: Final = 1_700_000_000_000_000_000
_SECOND: Final = 1_000_000_000
_STATES: Final = (pb.CONTAINER_CREATED, pb.CONTAINER_RUNNING, pb.CONTAINER_EXITED)
_CALLS: Final = ("CreateContainer", "StartContainer", "StopContainer", "RemoveContainer")
CREATED, STARTED, STOPPED, DELETED = EventType
_NEVER: Final = ("never-started", "large", "frozen", "leavers", "unsubscribed", "shared")
_NOTHING: Final = ("failed-create", "failed-network")
_STREAMS: Final = {"shared": (MAIN, "shared-0", "shared-1", LATER), "frozen": (MAIN, "frozen")}


class Script:
    """Writes a history without a breach: lives of every part, each row 10 ms after the last."""

    def __init__(self) -> None:
        self.history = History("containerd", "2.1.9")
        self._now = 0.0
        self._statuses: dict[str, dict[str, pb.ContainerStatus]] = {}

    def written(self) -> History:
        """All parts."""
        rows = self.history.rows
        for name in (MAIN, *(each for streams in _STREAMS.values() for each in streams[1:])):
            rows.append(Connected(self._tick(), name, up=True))
        for part in ("plain", *ALONE, *TOGETHER, "restart-later"):
            self._part(part)
        rows.append(Act(self._tick(), 0.01, "RunPodSandbox", "failed-network", "UNKNOWN: no CNI"))
        rows.append(Connected(self._tick(), MAIN, up=False, why="unavailable"))
        self.history.cases["failed-network"] = Case("failed-network", "")
        for of in ("pod_status", "refused", "files"):
            rows.append(Shown(self._tick(), of, of, of, wrong=False))
        return self.history

    def _tick(self) -> float:
        self._now += 0.01
        return self._now

    def _part(self, part: str) -> None:
        rows, cases, pod = self.history.rows, self.history.cases, f"{part}-pod"
        cases[pod] = Case(part, pod)
        owed = (CREATED, DELETED) if part in _NEVER else tuple(EventType)
        case = Case(part, pod, (CREATED, STOPPED, DELETED) if part == "failed-start" else owed)
        lot = LOTS.get(part, (None,))[0]
        if lot and lot.code is not None:
            case = case._replace(exit_code=lot.code, reason=lot.reason)
        keys = [f"{part}-{number}" for number in range(2 * (part not in _NOTHING))]
        cases |= dict.fromkeys(keys, case)
        steps = list(product(keys, zip(EventType, _CALLS, strict=True)))
        if part == "attempts":
            # Both at the same time.
            steps.sort(key=lambda step: step[1][0])
        for kind in (CREATED, STARTED):
            rows += self.heard(part, pod, kind, self._tick())
        for key, (kind, call) in steps:
            if kind in case.owed:
                took = 1.0 if part == "grace" and kind is STOPPED else 0.001
                rows.append(Act(self._tick(), took, call, key))
                self._now += took
                rows += self.heard(part, key, kind, self._tick())
                if part == "plain":
                    about = (key, "list_follows", f"after {kind.name}, it is")
                    rows.append(Shown(self._tick(), *about, wrong=False))
        for kind in (STOPPED, DELETED):
            rows += self.heard(part, pod, kind, self._tick())

    def heard(self, part: str, key: str, kind: EventType, at: float) -> list[Heard]:
        """The event, as each of the part's subscribers hears it."""
        case, made = self.history.cases.get(key, Case("", "")), _WALL + round(at * _SECOND)
        uid, statuses = f"{part}-pod", self._statuses.setdefault(part, {})
        ended: dict[str, Any] = {}
        if kind is DELETED:
            statuses.pop(key, None)
        elif key != uid:
            statuses[key] = pb.ContainerStatus(id=key, state=_STATES[kind], started_at=_WALL)
            if kind is STOPPED:
                # Those of `plain` end when it is said.
                ended = {"ended_ns": made if part == "plain" else _WALL + 1}
                ended |= {"exit_code": case.exit_code or 0, "reason": case.reason or ""}
        about = (ObjectKind.SANDBOX if key == uid else ObjectKind.CONTAINER, uid)
        what = (key, kind, at, made, *about, Pod("conformance", part, uid))
        return [
            Heard(
                at,
                stream,
                Announcement(*what, stream=number, received_wall_ns=made, **ended),
                tuple(statuses.values()),
            )
            for number, stream in enumerate(_STREAMS.get(part, (MAIN,)))
        ]


pytestmark = pytest.mark.quick

BREAKING: Final = table(__file__, "breaking.yaml")
CHANGES: Final = [(name, change) for name, changes in BREAKING.items() for change in changes]


def place(history: Any, key: str, begin: str, stream: str = MAIN) -> int:
    """Where the row of that id is whose text begins so."""
    return next(
        number
        for number, row in enumerate(history.rows)
        if (row.id, getattr(row, "stream", MAIN)) == (key, stream) and str(row).startswith(begin)
    )


def drop(history: History, *event: str) -> None:
    """It never comes."""
    del history.rows[place(history, *event)]


def double(history: History, *event: str) -> None:
    """It comes twice."""
    at = place(history, *event)
    history.rows.insert(at, history.rows[at])


def swap(history: Any, key: str, one: str, other: str, stream: str = MAIN) -> None:
    """They come in each other's place, made when the other one was."""
    first, second = (place(history, key, kind, stream) for kind in (one, other))
    a, b = history.rows[first], history.rows[second]
    for number, moved, here in ((first, b, a), (second, a, b)):
        made = moved.fact._replace(created_at_ns=here.fact.created_at_ns)
        history.rows[number] = moved._replace(at=here.at, fact=made)


def change(history: Any, key: str, begin: str, name: str, value: Any) -> None:
    """The row, or the fact in it, says something else; nanoseconds are added."""
    at = place(history, key, begin)
    row = history.rows[at]
    if name == "flawed":
        value = Flawed((Flaw(value),), 1)
    if name == "statuses":
        value = (pb.ContainerStatus(id=value),)
    if name in row._fields:
        row = row._replace(**{name: value})
    else:
        value = getattr(row.fact, name) + value if name.endswith("_ns") else value
        row = row._replace(fact=row.fact._replace(**{name: value}))
    history.rows[at] = row


def block(history: Any, key: str, begin: str, subscriber: str, controls: int = CONTROLS) -> None:
    """A call or an event comes once that subscriber reads; `controls`: calls that do not wait."""
    at = place(history, key, begin)
    row, read = history.rows[at], history.rows[at].at + 6
    if isinstance(row, Act):
        history.rows[at] = row._replace(took=6.1)
    else:
        fact = row.fact._replace(received_wall_ns=row.fact.received_wall_ns + 6 * _SECOND)
        history.rows[at] = row._replace(at=read + 0.1, fact=fact)
    history.rows.append(Connected(read, subscriber, up=True))
    history.cases["control"] = Case(CONTROL, "")
    for number in range(controls):
        history.rows.append(
            Act(read - 5 + number / 10, 0.01, "UpdateContainerResources", "control")
        )


def add(history: Any, key: str, kind: str, after: str, part: str) -> None:
    """An event comes that nothing was done for."""
    script = Script()
    script.history.cases = history.cases
    at = place(history, key if key in history.cases else f"{part}-pod", after)
    history.rows[at + 1 : at + 1] = script.heard(
        part, key, EventType[kind], history.rows[at].at + 0.001
    )[:1]


HOW: Final[dict[str, Callable[..., None]]] = {
    each.__name__: each for each in (drop, double, swap, change, block, add)
}


def broken(how: str, *what: str) -> History:
    """A good history, but for that change."""
    history = Script().written()
    HOW[how](history, *what)
    return history


def test_a_good_history_shows_all_properties() -> None:
    """And breaches none."""
    judged = {name: each.judged(Script().written()) for name, each in PROPERTIES.items()}
    assert {name for name, each in judged.items() if each.breaches or each.skipped} == set()


@pytest.mark.parametrize(("name", "changed"), CHANGES)
def test_one_change_breaches_one_property(name: str, changed: list[str]) -> None:
    """This one, and no other; its story is told."""
    history = broken(*changed)
    judged = {each: row.judged(history) for each, row in PROPERTIES.items()}
    assert {each for each in judged if judged[each].breaches} == {name}
    assert judged[name].shortest.what


@pytest.mark.parametrize(
    "how",
    [
        ("frozen-1", "Remove", "frozen", CONTROLS - 1),
        ("frozen-1", "DELETED", "frozen", 3),
        ("unsubscribed-1", "Remove", "main", 0),
        ("unsubscribed-1", "Remove", "frozen"),
        ("unsubscribed-1", "Remove", "main", CONTROLS + 1),
    ],
)
def test_a_stall_accuses_nobody(how: tuple[Any, ...]) -> None:
    """Too few control calls returned, another call returned too, or no subscriber was thawed."""
    history: Any = broken("block", *how)
    history.rows[-1] = history.rows[-1]._replace(id="unsubscribed-0")
    assert not [name for name, each in PROPERTIES.items() if each.judged(history).breaches]


def test_a_part_that_fails_half_way_accuses_nobody() -> None:
    """Its containers were not ended, or ended otherwise; what other parts show is judged."""
    history = broken("drop", "oom-0", "DELETED")
    change(history, "oom-0", "STOPPED", "exit_code", 0)
    drop(history, "oom-pod", "DELETED")
    history.skipped["oom"] = "needs cgroups that limit memory"
    judged = {name: each.judged(history) for name, each in PROPERTIES.items()}
    assert {name for name, each in judged.items() if each.breaches} == set()
    assert (judged["sudden"].cases, judged["exit-code"].cases) == (6, 8)
    assert judged["oom-reason"].skipped == "needs cgroups that limit memory"
    assert judged["exit-code"].said == "8 (not oom: needs cgroups that limit memory)"


def test_each_property_has_a_change_that_breaches_it() -> None:
    assert set(BREAKING) == set(PROPERTIES)
