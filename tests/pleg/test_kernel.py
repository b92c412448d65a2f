"""The third witness: what cgroups prove, and what they contradict."""

from dataclasses import replace

import pytest

from exporter.model.events import Lifecycle, Pod
from exporter.model.facts import CgroupsLost, CgroupsRead, StreamRefused
from exporter.model.findings import Verdict
from exporter.model.labels import Limit
from tests.support.facts import (
    CONTAINERD_2,
    CREATED,
    EXITED,
    READY,
    RUNNING,
    Given,
    Play,
    Shown,
    created,
    deleted,
    emptied,
    looked,
    of_sandbox,
    populated,
    relist,
    started,
    stopped,
    up,
    wall_ns,
    when,
)

pytestmark = pytest.mark.quick

INSIDE = RUNNING.inside("p1")
BEGUN = (up(), *looked(1, p1=READY))


def play(*facts: object) -> Play:
    """A story after a baseline at 1 s with the pod of uid u1."""
    return Play(*BEGUN, *facts, profile=CONTAINERD_2)  # type: ignore[arg-type]


def missed(of: Play) -> list[str]:
    return [line.replace(" missed ", " ") for line in of.judged if " missed " in line]


def ghosts_and_strays(of: Play) -> tuple[int, int]:
    return of.ledger.number(Verdict.GHOST), of.ledger.number(Verdict.STRAY)


def test_what_lasted_must_be_announced() -> None:
    """Unless its end was seen by a late look: it may have been a failed start."""
    for exact in (True, False):
        life = (created("c1", 2), populated("c1", 2), emptied("c1", 5, exact=exact))
        seen = play(*life, deleted("c1", 5), *looked(9.9, p1=READY))
        assert missed(seen) == []
        seen.then(*looked(10.1, p1=READY))
        assert missed(seen) == exact * ["c1 ContainerStarted silent", "c1 ContainerDied silent"]


def test_what_lasted_is_witnessed_and_not_judged_without_a_stream() -> None:
    seen = play(StreamRefused(1.5), *looked(2, p1=READY, c1=CREATED.inside("p1")))
    seen.then(populated("c1", 3), CgroupsRead(6))
    assert seen.ledger.unresolved == 0
    seen.then(*looked(20, p1=READY, c1=INSIDE))
    assert seen.witnessed == ["c1 ContainerChanged witnessed", "c1 ContainerStarted witnessed"]
    assert seen.judged == []


def test_a_container_that_neither_list_nor_stream_names_is_no_event() -> None:
    seen = play(populated("x", 2, ""), CgroupsRead(5), emptied("x", 6), *looked(20, p1=READY))
    assert seen.findings == []
    assert seen.ledger.kernel.cgroups == {}


def test_processes_found_to_be_elsewhere_excuse_what_waits() -> None:
    """The stream names a container before a list shows its sandbox."""
    kata = replace(READY, elsewhere=True)
    seen = play(created("c1", 2)._replace(sandbox_id="p2"), populated("c1", 2), CgroupsRead(5))
    seen.then(emptied("c1", 6), *looked(7, p1=READY, p2=kata, c1=EXITED.inside("p2")))
    seen.then(stopped("c1", 8), *looked(20, p1=READY, p2=kata, c1=EXITED.inside("p2")))
    assert "c1 ContainerStarted missed silent" not in seen.judged


def ghost_story() -> Play:
    facts = (started("c1", 2), populated("c1", 1.5), *looked(3, p1=READY, c1=INSIDE))
    return play(*facts, emptied("c1", 4))


def test_two_lists_make_a_ghost() -> None:
    """Both requested later than the grace after its last process ended."""
    seen = ghost_story()
    seen.then(*looked(9, p1=READY, c1=INSIDE), *looked(9.1, p1=READY, c1=INSIDE))
    assert ghosts_and_strays(seen) == (0, 0)
    (found,) = seen.then(*looked(10, p1=READY, c1=INSIDE))
    assert (found.verdict, found.event, found.container_id) == (Verdict.GHOST, Lifecycle.DIED, "c1")
    assert ghosts_and_strays(seen) == (1, 0)
    assert seen.then(*looked(11, p1=READY, c1=INSIDE)) == []
    seen.then(CgroupsLost(12), relist(12.5, p1=READY, c1=INSIDE), *looked(13, p1=READY, c1=INSIDE))
    assert ghosts_and_strays(seen) == (1, 0)
    seen.then(*looked(14, p1=READY, c1=EXITED))
    assert ghosts_and_strays(seen) == (0, 0)


def looked_away(at: float, *moved: str, c1: Shown = INSIDE) -> tuple[Given, ...]:
    """A list that shows it, and a read by which these may have moved."""
    return CgroupsRead(at, moved=moved), relist(at, p1=READY, c1=c1)


def test_a_process_that_may_have_moved_makes_no_ghost_until_it_has_ended() -> None:
    """runc#4620: it was said to have ended, and it ran in a cgroup of another name.

    https://github.com/opencontainers/runc/issues/4620
    """
    seen = ghost_story()
    for at in (5.0, 10.0, 11.0, 12.0):
        seen.then(*looked_away(at, "c1"))
        assert (seen.ledger.kernel.lives("c1"), ghosts_and_strays(seen)) == (None, (0, 0))
    # What is elsewhere in its pod ends: from then on it has the grace, like any other.
    seen.then(*(fact for at in (13.0, 17.9, 18.1) for fact in looked_away(at)))
    assert (seen.ledger.kernel.lives("c1"), ghosts_and_strays(seen)) == (False, (0, 0))
    seen.then(*looked_away(19))
    assert ghosts_and_strays(seen) == (1, 0)
    # A ghost does not become a process again.
    seen.then(*looked_away(20, "c1"))
    assert ghosts_and_strays(seen) == (1, 0)


@pytest.mark.parametrize("moves", [True, False])
def test_an_exit_is_not_timed_by_when_its_process_moved(*, moves: bool) -> None:
    """Its announcement came at once, and not 26 s late."""
    seen = ghost_story()
    seen.then(*looked_away(5, *["c1"] * moves), stopped("c1", 30)._replace(ended_ns=wall_ns(30)))
    seen.then(*looked_away(40, c1=EXITED.inside("p1")))
    late = [each for each in seen.findings if each.verdict is Verdict.SLOW]
    assert [each.seconds for each in late] == ([] if moves else [26])


# --- strays -------------------------------------------------------------------


def test_two_lists_make_a_stray() -> None:
    """Both requested later than the grace after its processes were first seen."""
    seen = play(populated("x", 2), *looked(6.9, p1=READY), *looked(7.1, p1=READY))
    assert ghosts_and_strays(seen) == (0, 0)
    (found,) = seen.then(*looked(8, p1=READY))
    assert (found.verdict, found.container_id) == (Verdict.STRAY, "x")
    assert found.pod is not None
    assert (found.pod.namespace, found.pod.uid) == ("shop", "u1")
    assert ghosts_and_strays(seen) == (0, 1)
    # Nor does it end with what is known of its pod.
    seen.then(*looked(9), *looked(20), *looked(30))
    assert ghosts_and_strays(seen) == (0, 1)
    seen.then(emptied("x", 30.5))
    assert ghosts_and_strays(seen) == (0, 0)


def test_in_a_pod_whose_processes_are_elsewhere_nothing_is_a_stray() -> None:
    """Neither what is listed as ended, nor what is not listed; though its containers do not say."""
    items = relist(1, p1=replace(READY, elsewhere=True), c1=EXITED.inside("p1")).items
    of_pod = (items[0], items[1]._replace(pod=items[0].pod))
    seen = Play(up(), CgroupsRead(1), relist(1), populated("c1", 2), populated("x", 2))
    for at in (10, 20, 30):
        seen.then(CgroupsRead(at), replace(relist(at), items=of_pod))
    assert ghosts_and_strays(seen) == (0, 0)


@pytest.mark.parametrize("left", [EXITED, None])
@pytest.mark.parametrize("elsewhere", ["never", "moved"])
def test_processes_may_be_of_a_running_container_that_has_none(
    left: Shown | None, elsewhere: str
) -> None:
    """kata#8412: a handler by any name may keep those of all in one container's cgroup.

    https://github.com/kata-containers/kata-containers/issues/8412
    """
    shown = {"p1": READY, "c2": INSIDE} | ({"c1": left.inside("p1")} if left else {})
    briefly = [populated("c2", 2), emptied("c2", 3)] * (elsewhere == "moved")
    seen = play(populated("c1", 2), *briefly)
    for at in (10.0, 16.0, 17.0, 18.0):
        seen.then(CgroupsRead(at, moved=("c2",)), relist(at, **shown))
    assert ghosts_and_strays(seen) == (0, 0)
    # It has its own: then they are nobody's, and stay so when it loses them.
    seen.then(populated("c2", 19), *(it for at in (20, 26, 27) for it in looked(at, **shown)))
    assert ghosts_and_strays(seen) == (0, 1)
    seen.then(emptied("c2", 28), *looked(29, **shown))
    assert ghosts_and_strays(seen) == (0, 1)


def test_a_stray_is_one_beside_who_ended_later_and_beside_a_known_ghost() -> None:
    """It had processes while the one had its own; the other is dead; and one is another pod's."""
    shown = {"p1": READY, "p2": READY, "c1": INSIDE, "c2": RUNNING.inside("p2")}
    later = play(populated("x", 2), started("c1", 2), populated("c1", 2), emptied("c1", 7))
    later.then(*(fact for at in (7.5, 8.5) for fact in looked(at, **shown)))
    assert ghosts_and_strays(later) == (0, 1)
    beside = play(*(fact for at in (2, 8, 9) for fact in said(at, dead=("c1",))))
    beside.then(populated("x", 10), *(f for at in (16, 17) for f in said(at, dead=("c1",))))
    assert ghosts_and_strays(beside) == (1, 1)


@pytest.mark.parametrize("pod_uid", ["", "u2"])
def test_what_is_in_no_pod_of_the_lists_is_no_stray(pod_uid: str) -> None:
    """Another client's container, or one of a pod of another runtime that the stream names."""
    named = of_sandbox(created("p2", 1.5))._replace(pod=Pod("shop", "p2", "u2"))
    pods = relist(10, p1=READY, p3=READY).items
    nameless = (pods[0], pods[1]._replace(pod=Pod("shop", "p3")))
    seen = play(named, populated("x", 2, pod_uid))
    for at in (10, 20):
        seen.then(CgroupsRead(at), replace(relist(at), items=nameless), named._replace(received=at))
    assert ghosts_and_strays(seen) == (0, 0)


def said(
    at: float, *, dead: tuple[str, ...] = (), frozen: tuple[str, ...] = ()
) -> tuple[Given, ...]:
    _, listed = looked(at, p1=READY, c1=INSIDE)
    return CgroupsRead(at, dead, frozen, killed=dead), listed


def test_a_container_that_was_dead_before_is_a_ghost() -> None:
    """It was no process' ghost but for the one that saw it end; a roll-out forgot them all."""
    of = Play(up(), *said(1), *said(2, dead=("c1",)), *said(8, dead=("c1",)), profile=CONTAINERD_2)
    assert ghosts_and_strays(of) == (0, 0)
    of.then(*said(9, dead=("c1",)))
    assert (ghosts_and_strays(of), of.ledger.kernel.lives("c1")) == ((1, 0), False)
    (found,) = (each for each in of.findings if each.verdict is Verdict.GHOST)
    assert (found.container_id, found.before, found.limit) == ("c1", True, Limit.UNKNOWN)
    # It stays one while nothing can be read, and while the proof has lapsed.
    of.then(CgroupsLost(10), relist(10.5, p1=READY, c1=INSIDE), *said(11, dead=("c1",)))
    assert ghosts_and_strays(of) == (1, 0)
    assert sum(each.verdict is Verdict.GHOST for each in of.findings) == 1
    of.then(*said(12))
    assert ghosts_and_strays(of) == (1, 0)
    of.then(populated("c1", 13), *said(14))
    assert (ghosts_and_strays(of), of.ledger.kernel.lives("c1")) == ((0, 0), True)


def test_what_died_while_nothing_could_be_read_is_counted() -> None:
    """The first list did not show it so: an earlier process did not count it."""
    of = play(*said(2), CgroupsLost(3), *(f for at in (10, 16, 17) for f in said(at, dead=("c1",))))
    (found,) = (each for each in of.findings if each.verdict is Verdict.GHOST)
    assert not found.before


def test_one_that_was_seen_to_end_is_one_ghost() -> None:
    seen = (populated("c1", 1.5), *said(2), emptied("c1", 3))
    of = play(*seen, *(fact for at in (9, 10, 11) for fact in said(at, dead=("c1",))))
    assert ghosts_and_strays(of) == (1, 0)
    assert sum(each.verdict is Verdict.GHOST for each in of.findings) == 1


def test_a_frozen_container_is_told_after_the_grace() -> None:
    """A checkpoint freezes one for a moment."""
    of = play(populated("c1", 1.5), *said(2, frozen=("c1",)), *said(8, frozen=("c1",)))
    assert of.ledger.number(Verdict.FROZEN) == 0
    of.then(*said(9, frozen=("c1",)))
    assert (of.ledger.number(Verdict.FROZEN), ghosts_and_strays(of)) == (1, (0, 0))
    of.then(*said(10))
    assert of.ledger.number(Verdict.FROZEN) == 0


def test_processes_that_only_pass_through_make_no_ghost() -> None:
    """kata#8412: under a handler that no list has by name, a VM's start is in the cgroup for 0.2 s.

    https://github.com/kata-containers/kata-containers/issues/8412
    """
    seen = play(started("c1", 2), populated("c1", 2), emptied("c1", 2.2))
    for at in (3, 8, 9, 10):
        seen.then(*looked(at, p1=READY, c1=INSIDE))
    assert ghosts_and_strays(seen) == (0, 0)
    # One that is provably dead is, however short its life was.
    seen.then(*said(11, dead=("c1",)), *said(17, dead=("c1",)), *said(18, dead=("c1",)))
    assert ghosts_and_strays(seen) == (1, 0)


@pytest.mark.parametrize(("last_list_of_pod", "strays"), [(3.0, 1), (2.0, 0)])
def test_a_stray_is_of_a_pod_that_a_list_has_shown_since_it_came(
    last_list_of_pod: float, strays: int
) -> None:
    """Before, memory decided: of a pod that has left, it keeps what is not settled."""
    facts: list[Given] = [relist(last_list_of_pod, p1=READY), populated("c1", 2.5)]
    seen = play(*sorted(facts, key=when), *looked(4), *looked(7.9), *looked(8.9))
    assert ghosts_and_strays(seen) == (0, strays)
