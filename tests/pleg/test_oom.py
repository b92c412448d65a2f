"""OOM kills and the runtime's word on them: each kill and each word is judged once."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from exporter.model.events import Announcement, EventType, Lifecycle, ObjectKind, Pod
from exporter.model.facts import BeliefsLost, CgroupsRead, Fact, Killed, KillsCounted
from exporter.model.findings import Finding, Verdict
from exporter.model.labels import Limit, OomKill
from exporter.pleg.oom import REASON, WAITING
from tests.support.facts import (
    CRIO,
    EXITED,
    GRACE,
    READY,
    RUNNING,
    Given,
    Play,
    Shown,
    Whole,
    began,
    counted,
    created,
    emptied,
    ends,
    killed,
    populated,
    relist,
    relists,
    said,
    started,
    up,
    when,
)
from tests.support.stories import stories
from tests.worlds.families import FAMILIES, history

BOOK = Path(__file__).with_name("stories.yaml")
# Of a pod whose processes are elsewhere.
KATA = Shown(READY.state, READY.kind, elsewhere=True)
APP, DEAD = RUNNING.inside("p1"), EXITED.inside("p1")
KILLS, STORIES = (stories(BOOK, chapter) for chapter in ("kills", "ooms"))


def lists(*times: float, **shown: Shown) -> list[Whole]:
    """Lists that show the pod, and what else."""
    return relists(*times, p1=READY, **shown)


def ooms(play: Play) -> list[Finding]:
    """What was found of kills."""
    return [each for each in play.findings if each.verdict is Verdict.OOM]


def kinds(play: Play) -> list[str]:
    """The same as text: the container, and the kind of its kill."""
    return [f"{each.container_id} {each.cause.value}" for each in ooms(play) if each.cause]


def check(story: list[Given], expected: list[str], *, between: bool = False) -> None:
    """Whether these are found, each once; `between`: a list comes between kill and STOPPED, too."""
    play = Play(*began(), *story)
    shown = {"c1": DEAD if any(each == emptied("c1", 20) for each in story) else APP}
    if between:
        play.then(*lists(20.05, **shown))
    rises = sum(each.processes for each in story if isinstance(each, Killed))
    play.then(counted(21, rises), *lists(30, 40, 50, 60, **shown))
    assert Counter(kinds(play)) == Counter(expected)
    nameless = (OomKill.REASON_ONLY, OomKill.UNATTRIBUTED)
    kills = [each for each in ooms(play) if each.cause not in nameless]
    assert {each.limit for each in kills} <= {Limit.CONTAINER}
    assert all(each.pod is not None for each in kills if each.container_id == "c1")


@pytest.mark.parametrize(("story", "expected"), KILLS.values(), ids=KILLS)
@pytest.mark.parametrize("between", [False, True])
def test_each_kill_is_judged_once(
    story: list[Given], expected: list[str], *, between: bool
) -> None:
    """And never again later; what was reported of real nodes is in `tests/field`."""
    check(story, expected, between=between)


@pytest.mark.parametrize(("story", "expected"), STORIES.values(), ids=STORIES)
def test_a_story_has_its_kinds(story: list[Given], expected: list[str]) -> None:
    assert Counter(kinds(Play(*story))) == Counter(expected)


def test_a_kill_waits_for_the_word_for_as_long_as_the_grace() -> None:
    """It came late, and it came."""
    play = Play(*began(), killed(20), emptied("c1", 20), *lists(20 + GRACE, c1=DEAD))
    assert kinds(play) == []
    play.then(ends(25.5), *lists(26, c1=DEAD))
    assert kinds(play) == ["c1 announced"]


def test_names_are_those_of_the_pod_though_it_is_gone() -> None:
    """A pod of a job is removed as soon as it has ended."""
    named = said(EventType.STOPPED, "c1", 20.1)._replace(reason=REASON, exit_code=137)
    named = named._replace(pod=Pod("shop", "p1", "u1"))
    gone = said(EventType.DELETED, "c1", 22.1)
    word: list[Given] = [emptied("c1", 20), named, *lists(22), gone, *relists(24, 30, 40)]
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
    young = relist(30, p1=READY, p2=READY, c1=APP)
    (known,) = ooms(Play(*began(), killed(20, "c9", pod="u2"), young))
    assert (known.cause, known.pod and known.pod.uid) == (OomKill.SURVIVED, "u2")


def test_one_that_ended_by_sigkill_is_likelier_than_one_of_which_nothing_is_known() -> None:
    play = Play(*began(), created("c2", 11), started("c2", 11), populated("c2", 11))
    play.then(*lists(12, c1=APP, c2=APP), killed(20, ""), emptied("c1", 20), emptied("c2", 20.05))
    play.then(ends(20.1, 137, "Error", name="c2"), *lists(30, 40, c1=DEAD, c2=DEAD))
    assert kinds(play) == ["c2 announced_as_error"]


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


@pytest.mark.parametrize("at", [25.2, 26, 40])
def test_a_word_that_may_stick_takes_a_kill_after_all_others(at: float) -> None:
    """Whether they are judged by one list or not."""
    shown = {"c1": APP, "c2": APP}
    play = Play(
        *began(),
        *(created("c2", 11), started("c2", 11), killed(12), counted(12, 1)),
        *lists(18, **shown),
        *(ends(20), ends(20.5, name="c2"), counted(20.6, 2)),
        *lists(20.7, at, 50, 60, **shown),
    )
    assert Counter(kinds(play)) == Counter(["c1 survived", "c2 announced", "c1 reason_only"])


def test_a_kill_that_is_counted_later_finds_who_had_ended() -> None:
    """A list came between; and the next container that ends is known as well."""
    play = Play(*began(), emptied("c1", 20), ends(20.1), *lists(20.5, c1=DEAD))
    play.then(killed(21, ""), emptied("c9", 21.1), *lists(30, c1=DEAD))
    assert kinds(play) == ["c1 announced"]


def test_a_word_without_a_kill_waits_for_as_long_as_the_grace() -> None:
    play = Play(*began(), ends(20), *lists(25, c1=DEAD))
    assert kinds(play) == []
    play.then(*lists(25.1, c1=DEAD))
    assert kinds(play) == ["c1 reason_only"]


def test_a_word_of_one_that_ended_well_takes_a_kill_after_all_others() -> None:
    """Whichever came first."""
    shown = {"c1": DEAD, "c2": DEAD}
    play = Play(*began(), created("c2", 11), started("c2", 11), *lists(12, c1=APP, c2=APP))
    play.then(ends(20, 0), ends(20.5, name="c2"), counted(20.6, 1), *lists(30, 40, **shown))
    assert Counter(kinds(play)) == Counter(["c2 announced", "c1 reason_only"])
    assert {each.limit for each in ooms(play)} == {Limit.UNKNOWN, None}


def test_a_kill_that_was_unattributed_explains_no_word() -> None:
    play = Play(*began(), counted(20, 1), *lists(20, 31, c1=APP), ends(32), *lists(50, c1=DEAD))
    assert kinds(play) == [" unattributed", "c1 reason_only"]


def test_a_word_without_any_kill_is_one_alone_if_lists_show_that_it_began_since() -> None:
    play = Play(up(), counted(1), relist(1, p1=READY), *lists(10, c1=APP), ends(20.1))
    play.then(*lists(22, 30, 40, c1=DEAD))
    assert kinds(play) == ["c1 reason_only"]


def test_what_is_of_no_known_pod_is_unattributed() -> None:
    """Once; when it has been so for twice the grace; what comes later waits for its own time."""
    play = Play(*began(), counted(20, 2), *lists(20, 30, c1=APP))
    assert kinds(play) == []
    play.then(counted(30.1, 3), *lists(30.2, c1=APP))
    assert kinds(play) == [" unattributed"] * 2
    play.then(*lists(40, 50, 60, c1=APP))
    assert kinds(play) == [" unattributed"] * 3
    assert ooms(play)[0].pod is None


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
