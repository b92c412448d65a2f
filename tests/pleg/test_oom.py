"""OOM kills and the runtime's word on them: each kill and each word is judged once."""

from collections import Counter
from collections.abc import Iterator
from itertools import product

import pytest

from exporter.model.events import Announcement, EventType, Lifecycle, ObjectKind, Pod
from exporter.model.facts import BeliefsLost, CgroupsRead, Fact, Killed, KillsCounted
from exporter.model.findings import Verdict
from exporter.model.labels import Limit, OomKill
from exporter.pleg.oom import REASON, WAITING
from tests.support.facts import (
    CRIO,
    GRACE,
    READY,
    Given,
    Play,
    Shown,
    created,
    emptied,
    populated,
    relist,
    said,
    started,
    up,
    when,
)
from tests.support.oom import APP, DEAD, began, check, counted, ends, killed, kinds, lists, ooms
from tests.support.scenarios import history
from tests.worlds.families import FAMILIES

# Of a pod whose processes are elsewhere.
KATA = Shown(READY.state, READY.kind, elsewhere=True)


STORIES: dict[str, tuple[list[Given], list[str]]] = {
    # Init was killed.
    "the count is read late": ([emptied("c1", 20), ends(20.1), killed(21, "")], ["c1 announced"]),
    "not announced": ([killed(20), emptied("c1", 20)], ["c1 unannounced"]),
    "announced after that": (
        [killed(20), emptied("c1", 20), *lists(30, c1=DEAD), ends(31)],
        ["c1 unannounced"],
    ),
    # A child was.
    "some of many": ([killed(20, number=3)], ["c1 survived"] * 3),
    "it ended by itself": (
        [killed(20), emptied("c1", 20), ends(20.1, 0, "Completed")],
        ["c1 survived"],
    ),
    "it ended with an error of its own": (
        [killed(20), emptied("c1", 20), ends(20.1, 1, "Error")],
        ["c1 survived"],
    ),
    "it ended a second after": (
        [killed(20), emptied("c1", 21), ends(21.1, 137, "Error")],
        ["c1 announced_as_error"],
    ),
    "it was killed by hand right after": (
        [killed(20), emptied("c1", 22), ends(22.1, 137, "Error")],
        ["c1 survived"],
    ),
    "of nobody who ended": ([killed(20, "")], [" survived"]),
    "of nobody who is known": ([killed(20, "c9", pod="u9")], ["c9 survived"]),
    # The word is wrong.
    "it sticks": (
        [killed(20), *lists(30, c1=APP), emptied("c1", 31), ends(31.1)],
        ["c1 survived", "c1 reason_only"],
    ),
    # Several.
    "of three, one ended it": (
        [killed(20, number=3), emptied("c1", 20), ends(20.1)],
        ["c1 announced", "c1 survived", "c1 survived"],
    ),
    "a word of another container": (
        [killed(20), emptied("c1", 20), ends(20.1, name="c2"), ends(20.1)],
        ["c1 announced"],
    ),
}


@pytest.mark.parametrize(("story", "expected"), STORIES.values(), ids=STORIES)
@pytest.mark.parametrize("between", [False, True])
def test_each_kill_is_judged_once(
    story: list[Given], expected: list[str], *, between: bool
) -> None:
    """And never again later; what was reported of real nodes is in `tests/field`."""
    check(story, expected, between=between)


def test_a_kill_waits_for_the_word_for_as_long_as_the_grace() -> None:
    """It came late, and it came."""
    play = Play(*began(), killed(20), emptied("c1", 20), *lists(20 + GRACE, c1=DEAD))
    assert kinds(play) == []
    play.then(ends(25.5), *lists(26, c1=DEAD))
    assert kinds(play) == ["c1 announced"]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((137, "OOMKilled"), (0, "Completed"), ["c1 announced"]),
        ((0, "Completed"), (137, "OOMKilled"), ["c2 announced"]),
        ((1, "Error"), (137, "Error"), ["c2 announced_as_error"]),
        ((0, "Completed"), None, ["c2 unannounced"]),
        ((137, "Error"), None, ["c1 announced_as_error"]),
        ((137, "Error"), (137, "OOMKilled"), ["c2 announced"]),
    ],
)
def test_of_a_pod_the_likeliest_victim_takes_the_kill(
    first: tuple[int, str], second: tuple[int, str] | None, expected: list[str]
) -> None:
    """Both ended; only the pod's count is left."""
    words = [ends(20.1, *first)] + ([ends(20.2, *second, "c2")] if second else [])
    play = Play(
        *began(),
        *(created("c2", 11), started("c2", 11), populated("c2", 11)),
        *lists(12, c1=APP, c2=APP),
        *(killed(20, ""), emptied("c1", 20), emptied("c2", 20.05), *words),
        *lists(21, 30, 40, c1=DEAD, c2=DEAD),
    )
    assert kinds(play) == expected


@pytest.mark.parametrize("reason", ["Completed", "OOMKilled"])
def test_two_kills_of_a_pod_are_not_both_of_the_first_container(reason: str) -> None:
    """A child of each was killed, and both ended well: one kill is of each."""
    play = Play(
        *began(),
        *(created("c2", 11), started("c2", 11), populated("c2", 11)),
        *lists(12, c1=APP, c2=APP),
        *(killed(20, "", number=2), emptied("c1", 20), emptied("c2", 20.05)),
        *(ends(20.1, 0, reason), ends(20.2, 0, reason, "c2")),
        *lists(21, 30, 40, c1=DEAD, c2=DEAD),
    )
    survived = [each for each in kinds(play) if each.endswith("survived")]
    assert survived == ["c1 survived", "c2 survived"]


def test_the_one_that_ended_when_the_pod_was_read_comes_before_a_likelier_one() -> None:
    """Another of the pod is said to be OOM-killed at the same time, and the count knows better."""
    play = Play(
        *began(),
        *(created("c2", 11), started("c2", 11), populated("c2", 11)),
        *lists(12, c1=APP, c2=APP),
        *(killed(20, ""), emptied("c1", 20.001), ends(20.1, 0, "Completed")),
        *(emptied("c2", 21), ends(21.1, name="c2")),
        *lists(22, 30, 40, c1=DEAD, c2=DEAD),
    )
    assert Counter(kinds(play)) == Counter(["c1 survived", "c2 reason_only"])


def test_names_are_those_of_the_pod_though_it_is_gone() -> None:
    """A pod of a job is removed as soon as it has ended."""
    named = said(EventType.STOPPED, "c1", 20.1)._replace(reason=REASON, exit_code=137)
    named = named._replace(pod=Pod("shop", "p1", "u1"))
    word: list[Given] = [emptied("c1", 20), named, *lists(22), relist(24), relist(30), relist(40)]
    stories: dict[OomKill, list[Given]] = {
        OomKill.UNANNOUNCED: [killed(20), emptied("c1", 20), *lists(22), relist(24), relist(30)],
        OomKill.SURVIVED: [killed(20, ""), *lists(22), relist(24), relist(30)],
        OomKill.ANNOUNCED: [counted(20, 1), *word],
        OomKill.REASON_ONLY: word,
    }
    for kind, story in stories.items():
        (found,) = ooms(Play(*began(), *story))
        assert (found.cause, found.pod and found.pod.uid) == (kind, "u1")
        assert (found.event, found.kind) == (Lifecycle.DIED, ObjectKind.CONTAINER)
    (unknown,) = ooms(Play(*began(), killed(20, "c9", pod=""), *lists(30, c1=APP)))
    assert unknown.pod is None


def test_one_of_several_waits_until_the_likeliest_is_known() -> None:
    """A list comes between their words, and the first was killed by hand."""
    play = Play(*began(), created("c2", 11), started("c2", 11), populated("c2", 11))
    play.then(*lists(12, c1=APP, c2=APP), killed(20, ""), emptied("c1", 20), emptied("c2", 20.05))
    play.then(ends(20.1, 137, "Error"), *lists(20.2, c1=DEAD, c2=DEAD))
    assert kinds(play) == []
    play.then(ends(20.3, name="c2"), *lists(20.4, c1=DEAD, c2=DEAD))
    assert kinds(play) == ["c2 announced"]
    # The only one need not be waited for.
    play = Play(*began(), killed(20, ""), emptied("c1", 20), ends(20.1, 137, "Error"))
    play.then(*lists(20.2, c1=DEAD))
    assert kinds(play) == ["c1 announced_as_error"]


def test_kills_of_several_reads_add_up() -> None:
    """And one of a group that had no process is none of the node's."""
    group = Killed(20.3, "c1", "u1", 1, 0, Limit.CONTAINER)
    play = Play(*began(), killed(20), killed(20.2), group, counted(20.4, 3))
    play.then(*lists(30, 40, 50, c1=APP))
    assert Counter(kinds(play)) == {"c1 survived": 3, " unattributed": 1}


def test_a_container_that_only_lists_show_ended_has_ended() -> None:
    play = Play(*began(), killed(20), *lists(30, c1=DEAD))
    assert kinds(play) == ["c1 unannounced"]


def test_processes_that_moved_have_not_ended() -> None:
    play = Play(*began(), killed(20), emptied("c1", 20.5), CgroupsRead(21, moved=("c1",)))
    play.then(*lists(21, 30, c1=APP))
    assert kinds(play) == ["c1 survived"]


def test_two_kills_of_two_pods_are_told_apart() -> None:
    """One that ended in another pod does not take it."""
    play = Play(*began(), killed(20, "", pod="u2"), emptied("c1", 20), ends(20.1))
    play.then(*lists(30, 40, c1=DEAD))
    assert Counter(kinds(play)) == Counter([" survived", "c1 reason_only"])


def test_a_ghost_knows_that_a_kill_ended_it() -> None:
    """A stopped shim tells of no end; and an older kill, of a child, ended nothing."""
    stories: tuple[tuple[list[Given], Limit | None], ...] = (
        ([killed(20), emptied("c1", 20)], Limit.CONTAINER),
        ([killed(20, ""), emptied("c1", 20)], Limit.CONTAINER),
        ([killed(15), *lists(21, c1=APP), emptied("c1", 22)], None),
    )
    for story, limit in stories:
        play = Play(*began(), CgroupsRead(14), *story)
        for at in (30, 31):
            play.then(CgroupsRead(at), *lists(at, c1=APP))
        (ghost,) = (each for each in play.findings if each.verdict is Verdict.GHOST)
        assert ghost.limit is limit


# --- by the node's count alone ------------------------------------------------


@pytest.mark.parametrize(
    ("code", "expected"), [(137, ["c1 announced"]), (0, ["c1 survived", "c1 reason_only"])]
)
def test_a_word_takes_a_kill_of_the_node(code: int, expected: list[str]) -> None:
    """The container's own count was gone with it."""
    play = Play(*began(), emptied("c1", 20), ends(20.1, code))
    play.then(counted(22, 1), *lists(22, 30, 40, 50, 60, c1=DEAD))
    assert kinds(play) == expected


@pytest.mark.parametrize("at", [26, 40])
def test_a_word_that_may_stick_takes_a_kill_after_all_others(at: float) -> None:
    """Whether they are judged by one list or not; alone, it takes it."""
    shown = {"c1": APP, "c2": APP}
    play = Play(
        *began(),
        *(created("c2", 11), started("c2", 11), killed(12), counted(12, 1)),
        *lists(18, **shown),
        *(ends(20), ends(20.5, name="c2"), counted(20.6, 2)),
        *lists(20.7, at, 50, 60, **shown),
    )
    assert Counter(kinds(play)) == Counter(["c1 survived", "c2 announced", "c1 reason_only"])
    play = Play(
        *(*began(), killed(12), counted(12, 1), *lists(18, c1=APP), ends(20), counted(20.6, 2)),
        *lists(20.7, 40, 50, 60, c1=DEAD),
    )
    assert kinds(play) == ["c1 survived", "c1 announced"]


def test_a_word_of_one_that_ended_well_takes_a_kill_after_all_others() -> None:
    """Whichever came first."""
    shown = {"c1": DEAD, "c2": DEAD}
    play = Play(*began(), created("c2", 11), started("c2", 11), *lists(12, c1=APP, c2=APP))
    play.then(ends(20, 0), ends(20.5, name="c2"), counted(20.6, 1), *lists(30, 40, **shown))
    assert Counter(kinds(play)) == Counter(["c2 announced", "c1 reason_only"])
    assert {each.limit for each in ooms(play)} == {Limit.UNKNOWN, None}


def test_a_kill_that_was_said_to_be_of_nobody_explains_no_word() -> None:
    play = Play(*began(), counted(20, 1), *lists(20, 31, c1=APP), ends(32), *lists(50, c1=DEAD))
    assert kinds(play) == [" unattributed", "c1 reason_only"]


def test_a_word_without_any_kill_is_one_alone() -> None:
    """The node's count stood still."""
    play = Play(*began(), emptied("c1", 20), ends(20.1), *lists(22, 30, 40, c1=DEAD))
    assert kinds(play) == ["c1 reason_only"]
    # Lists alone show that it began since.
    play = Play(up(), counted(1), relist(1, p1=READY), *lists(10, c1=APP), ends(20.1))
    play.then(*lists(22, 30, 40, c1=DEAD))
    assert kinds(play) == ["c1 reason_only"]


def test_what_nobody_names_is_said_to_be_so() -> None:
    """Once; when it has been so for twice the grace; what comes later waits for its own time."""
    play = Play(*began(), counted(20, 2), *lists(20, 30, c1=APP))
    assert kinds(play) == []
    play.then(counted(30.1, 3), *lists(30.2, c1=APP))
    assert kinds(play) == [" unattributed"] * 2
    play.then(*lists(40, 50, 60, c1=APP))
    assert kinds(play) == [" unattributed"] * 3
    assert ooms(play)[0].pod is None


def test_a_kill_that_is_named_later_was_never_unattributed() -> None:
    """And more than the node has had are never less than nothing."""
    play = Play(*began(), counted(20, 1), *lists(20, 25, c1=APP), killed(26, number=2))
    play.then(*lists(40, 50, 60, c1=APP))
    assert kinds(play) == ["c1 survived"] * 2


def test_a_stream_of_kills_leaves_none_unattributed() -> None:
    """There is always one whose word has not been judged yet, and never the same."""
    names = [f"c{number}" for number in range(1, 30)]
    play = Play(*began("c0"))
    for number, name in enumerate(names):
        at = 20.0 + 3 * number
        play.then(
            *(created(name, at), started(name, at), ends(at + 1.1, name=name)),
            counted(at + 1.2, number + 1),
            *lists(at + 2, **{name: DEAD}),
        )
    play.then(*lists(200, 210))
    assert Counter(kinds(play)) == Counter(f"{name} announced" for name in names)


# --- no claim -----------------------------------------------------------------


def test_nothing_is_said_while_nothing_is_counted() -> None:
    """Before the first count, and from when it is lost on; the next one begins anew."""
    play = Play(up(), relist(1, p1=READY), killed(2), emptied("c1", 2), populated("c1", 2.5))
    play.then(emptied("c1", 3), ends(3), *lists(4, 20, c1=DEAD))
    assert kinds(play) == []
    play = Play(*began(), killed(20), emptied("c1", 20), ends(20.1), counted(20.5, None))
    play.then(*lists(30, c1=DEAD), counted(31, 0), *lists(40, 50, 60, c1=DEAD))
    assert kinds(play) == []


def test_a_container_that_is_older_than_the_counts_may_have_had_a_kill() -> None:
    """The word may be of one that nobody counted."""
    play = Play(up(), counted(0.5), *lists(1, c1=APP), emptied("c1", 20), ends(20.1))
    play.then(*lists(30, 40, c1=DEAD))
    assert kinds(play) == []


@pytest.mark.parametrize("name", ["", "c1"])
def test_a_handler_that_keeps_processes_elsewhere_is_not_judged(name: str) -> None:
    """What is killed there is its sandbox's; the node had it."""
    shown = {"p1": KATA, "c1": APP}
    play = Play(*began(), relist(11, **shown), killed(20, name), counted(20, 1), ends(20.1))
    play.then(*(relist(at, **shown) for at in (30.0, 40.0, 50.0, 60.0)))
    assert kinds(play) == [" unattributed"]


def test_more_than_can_wait_are_the_nodes() -> None:
    """Bounded, and counted."""
    play = Play(
        *began(), killed(20, number=WAITING), killed(20, number=9), counted(21, WAITING + 9)
    )
    play.then(*lists(30, 40, 50, 60, c1=APP))
    assert Counter(kinds(play)) == {"c1 survived": WAITING, " unattributed": 9}


def test_a_container_that_runs_again_has_not_ended() -> None:
    """Its processes had moved; the stream is not asked either."""
    play = Play(*began(), killed(20), emptied("c1", 20), populated("c1", 20.1), BeliefsLost(21))
    play.then(*lists(30, c1=APP))
    assert kinds(play) == ["c1 survived"]


def test_a_word_is_forgotten_with_its_container() -> None:
    """Nothing is left of it to judge."""
    play = Play(*began(), profile=CRIO)
    play.then(ends(20, name="c9"), *lists(30, 40, c1=APP))
    assert kinds(play) == []


# --- the books ----------------------------------------------------------------


def counted_logs() -> Iterator[list[Fact]]:
    """Histories with kills, until the node's count cannot be read any more."""
    for family, number in product([each for each in FAMILIES if "OOM" in each.name], range(10)):
        log = history(family, number)
        lost = (
            at
            for at, each in enumerate(log)
            if isinstance(each, KillsCounted) and each.number is None
        )
        log = log[: next(lost, len(log))]
        if any(isinstance(each, KillsCounted) and each.number for each in log):
            yield log


@pytest.mark.parametrize("log", list(counted_logs()))
def test_the_kinds_add_up_to_what_the_node_counted(log: list[Fact]) -> None:
    """Exactly, whatever happens; and no word is found more than once."""
    words = sum(isinstance(each, Announcement) and each.reason == REASON for each in log)
    over, node = when(log[-1]), 0
    for each in log:
        node = each.number or 0 if isinstance(each, KillsCounted) else node
    play = Play(*log, KillsCounted(over + 1, node), quiet=True)
    play.then(*(relist(over + 20.0 * number) for number in range(1, 5)))
    found = Counter(each.cause for each in ooms(play))
    assert found.pop(OomKill.REASON_ONLY, 0) <= words
    assert found.total() == node
    assert found[OomKill.ANNOUNCED] <= words
