"""Each property, seen failing once: a good history, broken in one place, breaks that one alone."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from conformance.history import LATER, MAIN, Connected, Heard, History, Looked
from conformance.properties import PROPERTIES
from exporter.cri import runtime_v1_pb2 as pb
from exporter.model.events import EventType, Flawed
from exporter.model.labels import Flaw
from tests.conformance.script import Script

pytestmark = pytest.mark.quick

CREATED, STARTED, STOPPED, DELETED = EventType
SECOND: Final = 1_000_000_000
Breaking = Callable[[History], None]


def place(history: History, key: str, kind: EventType, stream: str = MAIN) -> int:
    """Where that event is among the rows."""
    rows = enumerate(history.rows)
    return next(
        number
        for number, row in rows
        if isinstance(row, Heard) and (row.id, row.fact.type, row.stream) == (key, kind, stream)
    )


def drop(key: str, kind: EventType = DELETED, stream: str = MAIN) -> Breaking:
    """It never comes."""
    return lambda history: history.rows.__delitem__(place(history, key, kind, stream))


def double(key: str, kind: EventType, stream: str = MAIN) -> Breaking:
    """It comes twice."""

    def broken(history: History) -> None:
        at = place(history, key, kind, stream)
        history.rows.insert(at, history.rows[at])

    return broken


def swap(key: str, one: EventType, other: EventType, stream: str = MAIN) -> Breaking:
    """They come in each other's place, made when the other one was."""

    def broken(history: History) -> None:
        first, second = (place(history, key, kind, stream) for kind in (one, other))
        a, b = history.rows[first], history.rows[second]
        assert isinstance(a, Heard)
        assert isinstance(b, Heard)
        history.rows[first] = _at(b, a)
        history.rows[second] = _at(a, b)

    return broken


def _at(moved: Heard, place: Heard) -> Heard:
    times = {name: getattr(place.fact, name) for name in ("received", "created_at_ns")}
    return moved._replace(at=place.at, fact=moved.fact._replace(**times))


def change(key: str, kind: EventType, **fields: Any) -> Breaking:  # noqa: ANN401 - of events
    """It says something else; times are added."""

    def broken(history: History) -> None:
        at = place(history, key, kind)
        heard = history.rows[at]
        assert isinstance(heard, Heard)
        mine = {name: fields[name] for name in fields if name in Heard._fields}
        fact = {
            name: getattr(heard.fact, name) + value if name.endswith("_ns") else value
            for name, value in fields.items()
            if name not in mine
        }
        history.rows[at] = heard._replace(fact=heard.fact._replace(**fact), **mine)

    return broken


def flawed(flaw: Flaw) -> Breaking:
    """The decoder finds that flaw in an event."""
    return change("killed-0", STOPPED, flawed=Flawed((flaw,), 1))


def figure(name: str, value: float) -> Breaking:
    """Something else was measured."""
    return lambda history: history.figures.update({name: value})


def add(key: str, kind: EventType, after: EventType, part: str) -> Breaking:
    """An event comes that nothing was done for."""

    def broken(history: History) -> None:
        script = Script()
        script.history.cases = history.cases
        at = 1 + (place(history, key, after) if key in history.cases else len(history.rows) - 1)
        moment = history.rows[at - 1].at + 0.001
        history.rows[at:at] = script.heard(part, key, kind, moment)[:1]

    return broken


def stale_look(history: History) -> None:
    """A status after an exit shows the container running."""
    for number, row in enumerate(history.rows):
        if isinstance(row, Looked) and row.type is STOPPED:
            history.rows[number] = row._replace(state=pb.CONTAINER_RUNNING)
            return


def clean_end(history: History) -> None:
    """The stream ends without an error."""
    for number, row in enumerate(history.rows):
        if isinstance(row, Connected) and row.why:
            history.rows[number] = row._replace(why="eof")


def shown(key: str, state: "pb.ContainerState") -> pb.ContainerStatus:
    """A status of a container."""
    return pb.ContainerStatus(id=key, state=state)


# Changes of which each one breaches the property alone.
BREAKING: Final[dict[str, tuple[Breaking, ...]]] = {
    "once": (double("plain-0", STARTED),),
    "order": (swap("killed-0", STARTED, STOPPED),),
    "last": (swap("killed-0", STOPPED, DELETED),),
    "stamps": (
        change("plain-0", CREATED, created_at_ns=-SECOND),
        change("plain-0", STOPPED, ended_ns=SECOND),
    ),
    "pod-named": (flawed(Flaw.NO_POD),),
    "no-empty-status": (flawed(Flaw.EMPTY_STATUS),),
    "own-status": (flawed(Flaw.NO_STATUS),),
    "own-state": (flawed(Flaw.WRONG_STATE),),
    "times": (flawed(Flaw.WRONG_TIME),),
    "others": (
        change("attempts-1", STARTED, statuses=(shown("attempts-0", 0), shown("attempts-1", 1))),
    ),
    "pod-status": (figure("pod_status", 1.0),),
    "large": (drop("large-0"),),
    "exit-code": (
        change("at-once-0", STOPPED, exit_code=255),
        change("oom-0", STOPPED, exit_code=0),
    ),
    "exit-reason": (change("at-once-0", STOPPED, reason="Error"),),
    "oom-reason": (change("oom-0", STOPPED, reason="Error"),),
    "exit-delay": (change("plain-0", STOPPED, received_wall_ns=20 * SECOND),),
    "sudden": (
        drop("killed-0"),
        drop("oom-0", STARTED),
        drop("at-once-0", STARTED),
        drop("burst-0", STOPPED),
    ),
    "grace": (change("grace-0", STOPPED, at=0.0),),
    "announced": (drop("plain-0", STOPPED), drop("never-started-0", CREATED)),
    "sandboxes": (drop("plain-pod"),),
    "failed-start": (drop("failed-start-0", STOPPED),),
    "not-made": (
        add("never-started-0", STARTED, CREATED, "never-started"),
        add("stranger", CREATED, CREATED, "failed-create"),
        add("stranger", STARTED, CREATED, "failed-network"),
    ),
    "pod-removal": (drop("forced-removal-0", STOPPED), drop("pod-removal-0")),
    "attempts": (drop("attempts-1", CREATED),),
    "exec": (add("exec-0", STOPPED, STARTED, "exec"),),
    "update": (add("update-0", STARTED, STARTED, "update"),),
    "handler": (drop("handler-0", STARTED),),
    "list-follows": (stale_look,),
    "streamed-lists": (figure("streamed", 1.0),),
    "every-subscriber": (
        drop("shared-0", DELETED, "shared-0"),
        swap("shared-0", CREATED, DELETED, "shared-1"),
    ),
    "frozen-blocks": (
        figure("frozen", 5.0),
        change("frozen-0", CREATED, received_wall_ns=5 * SECOND),
    ),
    "frozen-is-told": (drop("frozen-0", DELETED, "frozen"),),
    "leavers": (drop("leavers-0"), figure("files", 21.0)),
    "late-subscriber": (double("shared-0", CREATED, LATER),),
    "after-the-last": (drop("nobody-0", CREATED),),
    "switched-off": (figure("refused", 1.0),),
    "nobody-listens": (figure("nobody", 5.0),),
    "restart-is-told": (clean_end,),
    "restart-meanwhile": (drop("restart-0", STOPPED),),
    "restart-later": (drop("restart-later-1", STOPPED),),
}
CHANGES: Final = [(name, each) for name, changes in BREAKING.items() for each in changes]


def breached(history: History) -> set[str]:
    """The properties that it breaches."""
    return {name for name, each in PROPERTIES.items() if each.judged(history).breaches}


def test_a_good_history_shows_all_properties_but_one() -> None:
    """And breaches none; a unix socket cannot be half open."""
    judged = {name: each.judged(Script().written()) for name, each in PROPERTIES.items()}
    assert {name for name, each in judged.items() if each.breaches} == set()
    assert {name for name, each in judged.items() if each.skipped} == {"half-open"}


@pytest.mark.parametrize(("name", "breaking"), CHANGES)
def test_one_change_breaches_one_property(name: str, breaking: Breaking) -> None:
    """This one, and no other; its story is told."""
    history = Script().written()
    breaking(history)
    assert breached(history) == {name}
    assert PROPERTIES[name].judged(history).shortest.what


def test_each_property_has_a_history_that_breaches_it() -> None:
    """But for the one that is never judged."""
    assert {*BREAKING, "half-open"} == set(PROPERTIES)
    assert {each.number for each in PROPERTIES.values()} == set(range(1, 32))
