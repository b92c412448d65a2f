"""Two containers of one pod and name: when they are twins, and when it only looks like that."""

import time

import pytest

from exporter.model.events import Lifecycle, Listed, ListedState, ObjectKind, Pod
from exporter.model.facts import CgroupsRead
from exporter.model.findings import Verdict
from tests.support.facts import GRACE, Differences, Given, Play, Whole, emptied, looked, populated

POD, OTHER = Pod("shop", "cart", "u1"), Pod("shop", "cart", "u2")
RUNNING, EXITED = ListedState.RUNNING, ListedState.EXITED
READY = Listed("p1", ObjectKind.SANDBOX, RUNNING, "p1", "", POD)
ENDED = Listed("p2", ObjectKind.SANDBOX, EXITED, "p2", "", POD)


def container(
    name: str, state: ListedState = RUNNING, home: str = "p1", pod: Pod = POD, of: str = "app"
) -> Listed:
    return Listed(name, ObjectKind.CONTAINER, state, home, of, pod)


# What lists show, by a word.
ITEMS = {
    "old": container("c1"),
    "new": container("c2"),
    "third": container("c3"),
    "ended": container("c1", EXITED),
    "away": container("c2", home="p2"),
    "p2": ENDED._replace(state=RUNNING),
    "p2-ended": ENDED,
    "proxy": container("c3", of="proxy"),
    "new-proxy": container("c4", of="proxy"),
    "another-pods": container("c2", pod=OTHER),
    **{f"{name}-nameless": container(name, of="") for name in ("c1", "c2")},
    **{f"{name}-without-pod": container(name, pod=Pod()) for name in ("c1", "c2")},
}


def lists(story: str) -> list[Whole]:
    """Lists with a ready sandbox, ten seconds apart; `3 old new`: three such ones in a row."""
    shown: list[tuple[Listed, ...]] = []
    for text in story.split("; "):
        number, *words = text.split()
        shown += [(READY, *(ITEMS[word] for word in words))] * int(number)
    return [Whole(10.0 * n, 10.0 * n, items) for n, items in enumerate(shown, start=1)]


STORIES = {
    "in three lists": ("1 old; 4 old new", ["c2 beside c1"], 1),
    "already in the baseline": ("3 old new", ["c2 beside c1"], 1),
    "three of them are found once": ("2 old new; 1 old new third; 1 old new", ["c3 beside c1"], 1),
    "the oldest of three ends": (
        "3 old new; 3 old new third; 3 new third",
        ["c2 beside c1", "c3 beside c2"],
        1,
    ),
    "the oldest has just ended": ("3 old new; 3 old new third; 2 new third", ["c2 beside c1"], 0),
    "one ends": ("3 old new; 1 ended new", ["c2 beside c1"], 0),
    "a successor ends, and another begins": ("3 old new; 1 old; 3 old third", ["c2 beside c1"], 1),
    "one comes again": ("3 old new; 1 new; 3 old new", ["c2 beside c1", "c1 beside c2"], 1),
    "both come again": ("3 old new; 1; 3 old new", ["c2 beside c1"] * 2, 1),
    "both are removed": ("3 old new; 2", ["c2 beside c1"], 0),
    "a sandbox is listed as ended once": ("2 old away; 1 p2-ended old away; 2 p2 old away", [], 0),
    "in two lists": ("1 old; 2 old new; 1 new; 2 old new; 1 new", [], 0),
    "a sidecar that restarts": ("1 old; 1 ended new; 1 new", [], 0),
    "other names": ("3 old proxy", [], 0),
    "other pods": ("3 old another-pods", [], 0),
    "no names": ("3 c1-nameless c2-nameless", [], 0),
    "no uid": ("3 c1-without-pod c2-without-pod", [], 0),
    "a sandbox that ended": ("4 p2-ended old away", [], 0),
    "another name beside one in it": ("4 p2-ended old away proxy new-proxy", ["c4 beside c3"], 1),
    "a sandbox that ends": ("3 old away; 2 p2-ended old away", ["c2 beside c1"], 0),
}


@pytest.mark.parametrize(("shown", "found", "now"), STORIES.values(), ids=STORIES)
def test_two_that_run_at_once_are_twins(shown: str, found: list[str], now: int) -> None:
    """The newest and the oldest are named; with or without a stream."""
    play, said, twins = Play(), Differences(), []
    for fact in map(said.fact, lists(shown)):
        judged = [f for f in play.ledger.judge(fact).findings if f.verdict is Verdict.TWIN]
        assert {f.event for f in judged} <= {Lifecycle.STARTED}
        twins += [f"{f.container_id} beside {f.other}" for f in judged]
    assert (twins, play.ledger.number(Verdict.TWIN)) == (found, now)


@pytest.mark.parametrize(("shown", "before"), [("3 old new", True), ("1 old; 3 old new", False)])
def test_twins_of_the_first_list_are_from_before(shown: str, *, before: bool) -> None:
    found = [each for each in Play(*lists(shown)).findings if each.verdict is Verdict.TWIN]
    assert [each.before for each in found] == [before]


@pytest.mark.parametrize(
    ("seen", "twins"),
    [
        ([populated("c1", 1)], 1),
        ([populated("c1", 1), emptied("c1", 3)], 0),
        ([CgroupsRead(3, dead=("c1",))], 0),
    ],
)
def test_a_container_whose_last_process_ended_is_no_twin(seen: list[Given], twins: int) -> None:
    """It is a ghost: the lists are wrong, and the kubelet replaced what had ended."""
    play = Play(*looked(0.5), populated("c2", 1), *seen, *lists("3 old new"))
    assert play.ledger.number(Verdict.TWIN) == twins


def test_lists_within_the_grace_are_one_moment() -> None:
    """Those that count are requested later than that after the first one."""
    items = lists("1 old new")[0].items
    for at, found in ((GRACE, 0), (GRACE + 0.1, 1)):
        play = Play(*(Whole(when, when, items) for when in (1.0, 1.5, 1 + at, 1.2 + at)))
        assert play.ledger.number(Verdict.TWIN) == found


def test_thousands_of_one_name_cost_no_more_than_as_many_names() -> None:
    """Each list replaces all but the first; each that leaves is found among the others."""
    took = []
    for same in (False, True):
        names = ["app" if same else f"app-{number}" for number in range(4000)]
        shown = [
            (READY, *(container(f"c{n and turn}-{n}", of=name) for n, name in enumerate(names)))
            for turn in range(3)
        ]
        began = time.process_time()
        play = Play(*(Whole(10.0 * n, 10.0 * n, items) for n, items in enumerate(shown)))
        took.append(time.process_time() - began)
        assert play.ledger.number(Verdict.TWIN) == same
    # All by all would take fifty times as long.
    assert took[1] < 10 * took[0]
