"""Each property, seen failing once: a good history, broken in one place, breaks that one alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from conformance.history import MAIN, Act, Connected, Heard, History, Looked
from conformance.properties import PROPERTIES
from exporter.cri import runtime_v1_pb2 as pb
from exporter.model.events import EventType, Flawed
from exporter.model.labels import Flaw
from tests.conformance.script import Script

pytestmark = pytest.mark.quick

BREAKING: Final = yaml.safe_load(Path(__file__).with_name("breaking.yaml").read_bytes())
CHANGES: Final = [(name, change) for name, changes in BREAKING.items() for change in changes]


def place(history: History, key: str, kind: str, stream: str = MAIN) -> tuple[int, Heard]:
    """Where that event is among the rows."""
    wanted = (key, EventType[kind], stream)
    for number, row in enumerate(history.rows):
        if isinstance(row, Heard) and (row.id, row.fact.type, row.stream) == wanted:
            return number, row
    raise AssertionError(wanted)


def drop(history: History, *event: str) -> None:
    """It never comes."""
    del history.rows[place(history, *event)[0]]


def double(history: History, *event: str) -> None:
    """It comes twice."""
    history.rows.insert(*place(history, *event))


def swap(history: History, key: str, one: str, other: str, stream: str = MAIN) -> None:
    """They come in each other's place, made when the other one was."""
    (first, a), (second, b) = (place(history, key, kind, stream) for kind in (one, other))
    for number, moved, here in ((first, b, a), (second, a, b)):
        times = {name: getattr(here.fact, name) for name in ("received", "created_at_ns")}
        history.rows[number] = moved._replace(at=here.at, fact=moved.fact._replace(**times))


def change(history: History, key: str, kind: str, name: str, value: Any) -> None:
    """It says something else; times are added."""
    at, heard = place(history, key, kind)
    value = getattr(heard.fact, name) + value if name.endswith("_ns") else value
    history.rows[at] = heard._replace(fact=heard.fact._replace(**{name: value}))


def flaw(history: History, key: str, kind: str, name: str) -> None:
    """The decoder finds that flaw in an event."""
    change(history, key, kind, "flawed", Flawed((Flaw(name),), 1))


def show(history: History, key: str, kind: str, other: str) -> None:
    """The event shows another container as created."""
    at, heard = place(history, key, kind)
    history.rows[at] = heard._replace(statuses=(pb.ContainerStatus(id=other),))


def early(history: History, key: str, kind: str) -> None:
    """It comes before all others."""
    at, heard = place(history, key, kind)
    history.rows[at] = heard._replace(at=0.0)


def figure(history: History, name: str, value: float) -> None:
    """Something else was measured."""
    history.figures[name] = value


def add(history: History, key: str, kind: str, after: str, part: str) -> None:
    """An event comes that nothing was done for."""
    script = Script()
    script.history.cases = history.cases
    known = key in history.cases
    at, heard = place(history, key if known else f"{part}-pod", after)
    history.rows[at + 1 : at + 1] = script.heard(part, key, EventType[kind], heard.at + 0.001)[:1]


def stale(history: History) -> None:
    """A status after an exit shows the container running."""
    looks = ((n, row) for n, row in enumerate(history.rows) if isinstance(row, Looked))
    at, look = next((n, look) for n, look in looks if look.type is EventType.STOPPED)
    history.rows[at] = look._replace(state=pb.CONTAINER_RUNNING)


def hang(history: History, key: str) -> None:
    """A call does not return."""
    rows = ((n, row) for n, row in enumerate(history.rows) if isinstance(row, Act))
    at, act = next((n, act) for n, act in rows if act.id == key)
    history.rows[at] = act._replace(took=60.0, error="DEADLINE_EXCEEDED: Deadline Exceeded")


def clean_end(history: History) -> None:
    """The stream ends without an error."""
    for number, row in enumerate(history.rows):
        if isinstance(row, Connected) and row.why:
            history.rows[number] = row._replace(why="eof")


HOW: Final[dict[str, Callable[..., None]]] = {
    each.__name__: each
    for each in (drop, double, swap, change, flaw, show, early, figure, add, stale, hang, clean_end)
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
