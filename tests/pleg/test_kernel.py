"""The third witness: what cgroups prove, and what they contradict."""

from dataclasses import replace

import pytest

from exporter.model.events import Lifecycle, Pod
from exporter.model.facts import CgroupsLost, CgroupsRead, ProfileChosen, StreamDown, StreamRefused
from exporter.model.findings import Verdict
from exporter.model.labels import Limit
from tests.support.facts import (
    CREATED,
    EXITED,
    READY,
    RUNNING,
    Given,
    Play,
    Shown,
    beat,
    created,
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

INSIDE = RUNNING.inside("p1")
BEGUN = (up(), *looked(1, p1=READY))


def play(*facts: Given) -> Play:
    """A story after a baseline at 1 s with the pod of uid u1; the small worlds have many more."""
    return Play(*BEGUN, *facts)


def ghosts_and_strays(of: Play) -> tuple[int, int]:
    return of.ledger.number(Verdict.GHOST), of.ledger.number(Verdict.STRAY)


def test_what_lasted_is_witnessed_and_not_judged_without_a_stream() -> None:
    seen = play(StreamRefused(1.5), *looked(2, p1=READY, c1=CREATED.inside("p1")))
    seen.then(populated("c1", 3), CgroupsRead(6))
    assert seen.ledger.unresolved == 0
    seen.then(*looked(20, p1=READY, c1=INSIDE))
    assert seen.witnessed == ["c1 ContainerChanged witnessed", "c1 ContainerStarted witnessed"]
    assert seen.judged == []


def test_where_creation_brings_processes_they_show_no_start() -> None:
    chosen = ProfileChosen(0.1, "cri-o", "1.36.3")
    seen = Play(chosen, *BEGUN, created("c1", 2), populated("c1", 2.1), CgroupsRead(6))
    assert seen.witnessed == []


def test_a_container_that_neither_list_nor_stream_names_is_no_event() -> None:
    seen = play(populated("x", 2, ""), CgroupsRead(5), emptied("x", 6), *looked(20, p1=READY))
    assert seen.findings == []
    assert seen.ledger.kernel.cgroups == {}


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


@pytest.mark.parametrize("ran", [True, False])
def test_a_ghost_is_from_before_unless_its_processes_were_seen(*, ran: bool) -> None:
    """Though the tree was lost since, and a read alone shows that it is dead."""
    seen = Play(up(), *looked(1, p1=READY, c1=INSIDE), *[populated("c1", 2)] * ran, CgroupsLost(5))
    for at in (10, 16, 17):
        seen.then(CgroupsRead(at, dead=("c1",)), relist(at, p1=READY, c1=INSIDE))
    assert [each.before for each in seen.findings if each.verdict is Verdict.GHOST] == [not ran]


@pytest.mark.parametrize("since", [1, 5])
def test_what_is_frozen_by_the_first_list_is_so_from_before(since: float) -> None:
    seen = Play(up())
    for at in (1, 5, 11, 12):
        frozen = ("c1",) * (at >= since)
        seen.then(CgroupsRead(at, frozen=frozen), relist(at, p1=READY, c1=INSIDE))
    (found,) = (each for each in seen.findings if each.verdict is Verdict.FROZEN)
    assert found.before == (since == 1)


def test_a_read_from_before_a_list_makes_no_ghost_by_it() -> None:
    seen = Play(
        up(), CgroupsRead(0.5), relist(1, p1=READY, c1=INSIDE), CgroupsRead(5, dead=("c1",))
    )
    seen.then(*(relist(at, p1=READY, c1=INSIDE) for at in (10, 16, 17)))
    assert ghosts_and_strays(seen) == (0, 0)


def test_an_end_that_is_reported_again_was_at_the_first_time() -> None:
    seen = ghost_story()
    seen.then(emptied("c1", 8), *(it for at in (9.5, 10) for it in looked(at, p1=READY, c1=INSIDE)))
    assert ghosts_and_strays(seen) == (1, 0)


def looked_away(at: float, *moved: str, c1: Shown = INSIDE) -> tuple[Given, ...]:
    """A list that shows it, and a read by which these may have moved."""
    return CgroupsRead(at, moved=moved), relist(at, p1=READY, c1=c1)


def test_a_ghost_does_not_become_a_process_again() -> None:
    """While it may have moved, it was none.

    https://github.com/opencontainers/runc/issues/4620
    """
    seen = ghost_story()
    seen.then(*(fact for at in (10, 11) for fact in looked_away(at, "c1")))
    assert ghosts_and_strays(seen) == (0, 0)
    seen.then(*(fact for at in (16, 22, 23) for fact in looked_away(at)), *looked_away(24, "c1"))
    assert ghosts_and_strays(seen) == (1, 0)


def test_an_exit_is_taken_back_while_its_process_may_have_moved() -> None:
    """And if it has ended after all, the exact time is unknown."""
    seen = ghost_story()
    assert seen.ledger.unresolved == 1
    seen.then(*looked_away(5, "c1"))
    assert seen.ledger.unresolved == 0
    seen.then(CgroupsRead(7), stopped("c1", 9))
    assert seen.delays == []


def test_what_lasted_once_has_run_though_what_came_again_did_not_last() -> None:
    seen = play(created("c1", 1.5), populated("c1", 2), CgroupsRead(5), emptied("c1", 6))
    seen.then(populated("c1", 6.5), emptied("c1", 7))
    seen.then(*looked(10, p1=READY, c1=EXITED.inside("p1")))
    seen.then(*(it for at in (16, 22) for it in looked(at, p1=READY)))
    assert "c1 ContainerDied missed silent" in seen.judged


def test_of_two_that_last_by_one_read_both_have_started() -> None:
    seen = play(populated("c1", 2), populated("c2", 2), created("c1", 2.1), created("c2", 2.1))
    seen.then(CgroupsRead(6))
    assert seen.witnessed == ["c1 ContainerStarted witnessed", "c2 ContainerStarted witnessed"]


def test_what_the_first_read_after_an_interruption_shows_may_have_begun_before() -> None:
    seen = play(created("c1", 1.5), CgroupsLost(2), populated("c1", 3), CgroupsRead(6))
    assert seen.witnessed == []


def test_of_two_that_had_moved_both_have_ended() -> None:
    seen = play(populated("c1", 1.5), populated("c2", 1.5), emptied("c1", 5), emptied("c2", 5))
    seen.then(CgroupsRead(6, moved=("c1", "c2")), relist(6, p1=READY, c1=INSIDE, c2=INSIDE))
    seen.then(CgroupsRead(7))
    assert seen.witnessed[-2:] == ["c1 ContainerDied witnessed", "c2 ContainerDied witnessed"]


def test_an_exit_that_is_heard_does_not_show_that_a_start_before_it_was_served() -> None:
    """The first event of a watch shows that the runtime serves it from then on."""
    seen = Play(*BEGUN, populated("c1", 2), CgroupsRead(4.5), emptied("c1", 4.9), quiet=True)
    seen.then(stopped("c1", 5), *(it for at in (6, 20, 30) for it in looked(at, p1=READY)))
    assert "c1 ContainerStarted missed stream_down" in seen.judged


def test_nor_if_a_list_shows_that_start_to_be_over() -> None:
    """Such a list makes it due, and no list since the first event has shown the container."""
    seen = Play(*BEGUN, beat(2), CgroupsRead(3), populated("c1", 4), CgroupsRead(6.5), quiet=True)
    seen.then(stopped("c1", 7), *looked(8, p1=READY, c1=EXITED), beat(20))
    seen.then(*looked(21, p1=READY, c1=EXITED))
    assert "c1 ContainerStarted missed stream_down" in seen.judged


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_start_is_due_once_a_list_shows_it_over_unless_processes_are_elsewhere(
    *, elsewhere: bool
) -> None:
    """The list is the first one to show the sandbox, too, and by which handler it runs."""
    seen = play(created("c1", 2)._replace(sandbox_id="p2"), populated("c1", 2), CgroupsRead(5))
    for at in (6, 12, 18):
        seen.then(*looked(at, p1=READY, p2=replace(READY, elsewhere=elsewhere)))
    missed = "c1 ContainerStarted missed silent" in seen.judged
    assert missed is not elsewhere


@pytest.mark.parametrize("moves", [True, False])
def test_an_exit_is_not_timed_by_when_its_process_moved(*, moves: bool) -> None:
    """Its announcement came at once, and not 26 s late."""
    seen = ghost_story()
    seen.then(*looked_away(5, *["c1"] * moves), stopped("c1", 30)._replace(ended_ns=wall_ns(30)))
    seen.then(*looked_away(40, c1=EXITED.inside("p1")))
    late = [each for each in seen.findings if each.verdict is Verdict.SLOW]
    assert [each.seconds for each in late] == ([] if moves else [26])


def test_an_exit_that_is_taken_back_leaves_no_excuse() -> None:
    """Its processes ended amid an outage, and came back: what is lost later has no such cause."""
    seen = play(started("c1", 2), populated("c1", 1.5), *looked(5, p1=READY, c1=INSIDE))
    seen.then(StreamDown(9), emptied("c1", 10), up(11), populated("c1", 12))
    seen.then(*(it for at in (13, 20) for it in looked(at, p1=READY, c1=INSIDE)))
    ended = {"p1": READY, "c1": EXITED.inside("p1")}
    seen.then(emptied("c1", 30), *(it for at in (31, 38) for it in looked(at, **ended)))
    assert "c1 ContainerDied missed silent" in seen.judged


def test_a_start_that_a_list_proved_is_not_taken_back() -> None:
    """Though later ones show it as created, amid processes that last."""
    seen = play(created("c1", 1.4), populated("c1", 1.5), *looked(2, p1=READY, c1=INSIDE))
    shown = {"p1": READY, "c1": CREATED.inside("p1")}
    seen.then(*(it for at in (5, 12, 13) for it in looked(at, **shown)))
    assert "c1 ContainerStarted missed silent" in seen.judged


# --- strays -------------------------------------------------------------------


def test_two_lists_make_a_stray() -> None:
    """Both requested later than six minutes after its processes were first seen."""
    seen = play(populated("x", 2), *looked(361.9, p1=READY), *looked(362.1, p1=READY))
    assert ghosts_and_strays(seen) == (0, 0)
    (found,) = seen.then(*looked(363, p1=READY))
    assert (found.verdict, found.container_id) == (Verdict.STRAY, "x")
    assert found.pod is not None
    assert (found.pod.namespace, found.pod.uid) == ("shop", "u1")
    assert ghosts_and_strays(seen) == (0, 1)
    # Nor does it end with what is known of its pod.
    seen.then(*looked(364), *looked(375), *looked(385))
    assert ghosts_and_strays(seen) == (0, 1)
    seen.then(emptied("x", 385.5))
    assert ghosts_and_strays(seen) == (0, 0)


@pytest.mark.parametrize("named", [False, True])
def test_what_is_created_may_have_processes_for_long_before_it_is_named(*, named: bool) -> None:
    """Seen of CRI-O's containers, and of a sandbox on containerd 2.1.9."""
    seen = play(*[created("x", 1.9)] * named, populated("x", 2))
    seen.then(*(it for at in (100, 361, 361.9) for it in looked(at, p1=READY)))
    assert ghosts_and_strays(seen) == (0, named)
    seen.then(*(it for at in (362.1, 363) for it in looked(at, p1=READY)))
    assert ghosts_and_strays(seen) == (0, 1)


def test_a_stray_that_is_listed_as_exited_starts_over() -> None:
    ended = {"p1": READY, "x": EXITED.inside("p1")}
    seen = play(populated("x", 2), *looked(8, p1=READY))
    seen.then(*(it for at in (8.5, 9, 13.4) for it in looked(at, **ended)))
    assert ghosts_and_strays(seen) == (0, 0)
    seen.then(*(it for at in (13.6, 14) for it in looked(at, **ended)))
    assert ghosts_and_strays(seen) == (0, 1)


@pytest.mark.parametrize("since", [0.5, 2])
def test_a_stray_that_the_first_read_showed_is_from_before(since: float) -> None:
    seen = Play(
        up(), populated("x", since), *(it for at in (1, 363, 364) for it in looked(at, p1=READY))
    )
    (found,) = (each for each in seen.findings if each.verdict is Verdict.STRAY)
    assert found.before == (since < 1)


def test_a_process_that_only_passes_through_is_no_stray_however_short_the_grace() -> None:
    seen = Play(*BEGUN, created("x", 1.9), populated("x", 2), grace=1.0)
    seen.then(*(it for at in (3.2, 3.9) for it in looked(at, p1=READY)))
    assert ghosts_and_strays(seen) == (0, 0)
    seen.then(*(it for at in (4.1, 4.2) for it in looked(at, p1=READY)))
    assert ghosts_and_strays(seen) == (0, 1)


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
    another = {"p2": READY, "c0": RUNNING.inside("p2")}
    shown = another | {"p1": READY, "c2": INSIDE} | ({"c1": left.inside("p1")} if left else {})
    briefly = [populated("c2", 2), emptied("c2", 3)] * (elsewhere == "moved")
    seen = play(created("c1", 1.9), populated("c1", 2), *briefly)
    for at in (10.0, 16.0, 17.0, 18.0):
        seen.then(CgroupsRead(at, moved=("c2",)), relist(at, **shown))
    assert ghosts_and_strays(seen) == (0, 0)
    # It has its own: then they are nobody's, and stay so when it loses them.
    seen.then(populated("c2", 19), *(it for at in (20, 26, 27) for it in looked(at, **shown)))
    assert ghosts_and_strays(seen) == (0, 1)
    seen.then(emptied("c2", 28), *looked(29, **shown))
    assert ghosts_and_strays(seen) == (0, 1)


@pytest.mark.parametrize(
    ("came", "exact", "strays"),
    [(2, True, 1), (5.9, True, 1), (6.1, True, 0), (3, False, 1), (4.1, False, 0)],
)
def test_processes_that_came_before_another_lost_its_own_are_not_its(
    came: float, strays: int, *, exact: bool
) -> None:
    """One that moves may be seen up to a second early; without notifications, since a read."""
    mine: list[Given] = [populated("c1", 2), CgroupsRead(4), emptied("c1", 7, exact=exact)]
    seen = play(
        created("x", 1.9), started("c1", 2), *sorted([*mine, populated("x", came)], key=when)
    )
    seen.then(*(fact for at in (11.3, 11.9) for fact in looked(at, p1=READY, c1=INSIDE)))
    assert ghosts_and_strays(seen) == (0, strays)


def test_a_stray_has_no_cause_of_death() -> None:
    """Its container did, and what was killed is not what runs on."""
    shown = {"p1": READY, "c1": EXITED.inside("p1")}
    seen = play(populated("c1", 2))
    for at in (3, 9, 10):
        seen.then(CgroupsRead(at, killed=("c1",)), relist(at, **shown))
    (stray,) = (each for each in seen.findings if each.verdict is Verdict.STRAY)
    assert stray.limit is None


@pytest.mark.parametrize(("home", "strays"), [("p1", 0), ("p2", 1)])
def test_a_cgroup_that_names_no_pod_is_of_its_containers(home: str, strays: int) -> None:
    shown = {"p1": READY, "p2": READY, "c1": EXITED.inside("p1"), "c2": RUNNING.inside(home)}
    seen = play(populated("c1", 2, ""), *(it for at in (3, 9, 10) for it in looked(at, **shown)))
    assert ghosts_and_strays(seen) == (0, strays)


def test_a_stray_is_one_beside_a_known_ghost() -> None:
    beside = play(*(fact for at in (2, 8, 9) for fact in said(at, dead=("c1",))))
    beside.then(
        created("x", 9.9),
        populated("x", 10),
        *(f for at in (16, 17) for f in said(at, dead=("c0", "c1"))),
    )
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


def said(at: float, *, dead: tuple[str, ...] = ()) -> tuple[Given, ...]:
    _, listed = looked(at, p1=READY, c1=INSIDE)
    return CgroupsRead(at, dead, killed=dead), listed


def test_a_container_that_was_dead_before_is_a_ghost() -> None:
    """It was no process' ghost but for the one that saw it end; a roll-out forgot them all."""
    of = Play(up(), *said(1), *said(2, dead=("c1",)), *said(8, dead=("c1",)))
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


def test_processes_that_only_pass_through_make_no_ghost() -> None:
    """kata#8412: under a handler that no list has by name, a VM's start is in the cgroup for 0.2 s.

    https://github.com/kata-containers/kata-containers/issues/8412
    """
    seen = play(started("c1", 2), populated("c1", 2), emptied("c1", 2.2))
    for at in (3, 8, 9, 10):
        seen.then(*looked(at, p1=READY, c1=INSIDE))
    assert ghosts_and_strays(seen) == (0, 0)
