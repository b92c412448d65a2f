"""Two containers of one pod and name: when they are twins, and when it only looks like that."""

import time

import pytest

from exporter.model.events import Lifecycle, Listed, ListedState, ObjectKind, Pod
from exporter.model.findings import Verdict
from tests.support.facts import GRACE, Differences, Play, Whole, emptied, looked, populated

pytestmark = pytest.mark.quick

POD, OTHER = Pod("shop", "cart", "u1"), Pod("shop", "cart", "u2")
RUNNING, EXITED = ListedState.RUNNING, ListedState.EXITED
READY = Listed("p1", ObjectKind.SANDBOX, RUNNING, "p1", "", POD)
ENDED = Listed("p2", ObjectKind.SANDBOX, EXITED, "p2", "", POD)


def container(
    name: str, state: ListedState = RUNNING, home: str = "p1", pod: Pod = POD, of: str = "app"
) -> Listed:
    return Listed(name, ObjectKind.CONTAINER, state, home, of, pod)


OLD, NEW, THIRD = container("c1"), container("c2"), container("c3")
AWAY = container("c2", home="p2")


def lists(*shown: tuple[Listed, ...]) -> list[Whole]:
    return [
        Whole(at, at, (READY, *items))
        for at, items in ((10.0 * number, items) for number, items in enumerate(shown, start=1))
    ]


STORIES = {
    "in three lists": ([(OLD,), *[(OLD, NEW)] * 4], ["c2 beside c1"], 1),
    "already in the baseline": ([(OLD, NEW)] * 3, ["c2 beside c1"], 1),
    "three of them are found once": (
        [*[(OLD, NEW)] * 2, (OLD, NEW, THIRD), (OLD, NEW)],
        ["c3 beside c1"],
        1,
    ),
    "the oldest of three ends": (
        [*[(OLD, NEW)] * 3, *[(OLD, NEW, THIRD)] * 3, *[(NEW, THIRD)] * 3],
        ["c2 beside c1", "c3 beside c2"],
        1,
    ),
    "the oldest of three has just ended": (
        [*[(OLD, NEW)] * 3, *[(OLD, NEW, THIRD)] * 3, *[(NEW, THIRD)] * 2],
        ["c2 beside c1"],
        0,
    ),
    "one ends": ([*[(OLD, NEW)] * 3, (container("c1", EXITED), NEW)], ["c2 beside c1"], 0),
    "a successor ends, and another begins": (
        [*[(OLD, NEW)] * 3, (OLD,), *[(OLD, THIRD)] * 3],
        ["c2 beside c1"],
        1,
    ),
    "one is removed, and comes again": (
        [*[(OLD, NEW)] * 3, (NEW,), *[(OLD, NEW)] * 3],
        ["c2 beside c1", "c1 beside c2"],
        1,
    ),
    "both are removed, and come again": (
        [*[(OLD, NEW)] * 3, (), *[(OLD, NEW)] * 3],
        ["c2 beside c1"] * 2,
        1,
    ),
    "both are removed": ([*[(OLD, NEW)] * 3, (), ()], ["c2 beside c1"], 0),
    "a sandbox that is listed as ended once": (
        [*[(OLD, AWAY)] * 2, (ENDED, OLD, AWAY), *[(ENDED._replace(state=RUNNING), OLD, AWAY)] * 2],
        [],
        0,
    ),
    "in two lists": ([(OLD,), *[(OLD, NEW)] * 2, (NEW,), *[(OLD, NEW)] * 2, (NEW,)], [], 0),
    "a sidecar that restarts": ([(OLD,), (container("c1", EXITED), NEW), (NEW,)], [], 0),
    "other names": ([(OLD, container("c2", of="proxy"))] * 3, [], 0),
    "other pods": ([(OLD, container("c2", pod=OTHER))] * 3, [], 0),
    "no names": ([(container("c1", of=""), container("c2", of=""))] * 3, [], 0),
    "no uid": ([(container("c1", pod=Pod()), container("c2", pod=Pod()))] * 3, [], 0),
    "a sandbox that ended": ([(ENDED, OLD, container("c2", home="p2"))] * 4, [], 0),
    "one of another name in a sandbox that ended": (
        [(ENDED, OLD, AWAY, container("c3", of="proxy"), container("c4", of="proxy"))] * 4,
        ["c4 beside c3"],
        1,
    ),
    "a sandbox that ends": (
        [*[(OLD, container("c2", home="p2"))] * 3, *[(ENDED, OLD, container("c2", home="p2"))] * 2],
        ["c2 beside c1"],
        0,
    ),
}


@pytest.mark.parametrize(("shown", "found", "now"), STORIES.values(), ids=STORIES)
def test_two_that_run_at_once_are_twins(
    shown: list[tuple[Listed, ...]], found: list[str], now: int
) -> None:
    """The newest and the oldest are named; with or without a stream."""
    play, said, twins = Play(), Differences(), []
    for fact in map(said.fact, lists(*shown)):
        judged = [f for f in play.ledger.judge(fact).findings if f.verdict is Verdict.TWIN]
        assert {f.event for f in judged} <= {Lifecycle.STARTED}
        twins += [f"{f.container_id} beside {f.other}" for f in judged]
    assert (twins, play.ledger.number(Verdict.TWIN)) == (found, now)


@pytest.mark.parametrize("ended", [True, False])
def test_a_container_whose_last_process_ended_is_no_twin(*, ended: bool) -> None:
    """It is a ghost: the lists are wrong, and the kubelet replaced what had ended."""
    play = Play(*looked(0.5), populated("c1", 1), populated("c2", 1), *[emptied("c1", 3)] * ended)
    play.then(*lists(*[(OLD, NEW)] * 3))
    assert play.ledger.number(Verdict.TWIN) == (not ended)


def test_lists_within_the_grace_are_one_moment() -> None:
    """Those that count are requested later than that after the first one."""
    items = (READY, OLD, NEW)
    for at, found in ((GRACE, 0), (GRACE + 0.1, 1)):
        play = Play(*(Whole(when, when, items) for when in (1.0, 1.5, 1 + at, 1.2 + at)))
        assert play.ledger.number(Verdict.TWIN) == found


def test_thousands_of_one_name_cost_no_more_than_as_many_names() -> None:
    """Each list replaces all but the first; each that leaves is found among the others."""
    took = []
    for same in (False, True):
        names = ["app" if same else f"app-{number}" for number in range(8000)]
        shown = [
            tuple(container(f"c{n and turn}-{n}", of=name) for n, name in enumerate(names))
            for turn in range(3)
        ]
        began = time.process_time()
        play = Play(*lists(*shown))
        took.append(time.process_time() - began)
        assert play.ledger.number(Verdict.TWIN) == same
    # All by all would take a hundred times as long.
    assert took[1] < 10 * took[0]
