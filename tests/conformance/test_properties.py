"""Each property, seen failing once: a good history, broken in one place, breaks that one alone."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from conformance.history import MAIN, Connected, History
from conformance.properties import PROPERTIES
from exporter.cri import runtime_v1_pb2 as pb
from exporter.model.events import EventType, Flawed
from exporter.model.labels import Flaw
from tests import table
from tests.conformance.script import Script

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


def block(history: Any, key: str, subscriber: str) -> None:
    """A call takes until that subscriber reads."""
    at = place(history, key, "Remove")
    act = history.rows[at]
    history.rows[at] = act._replace(took=6.0)
    history.rows.append(Connected(act.at + 5.9, subscriber, up=True))


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
