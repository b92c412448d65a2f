"""The third witness: what cgroups prove, and what they contradict."""

from dataclasses import replace

import pytest

from exporter.model.events import Lifecycle, Pod
from exporter.model.facts import CgroupsLost, CgroupsRead
from exporter.model.findings import Verdict
from tests.support.facts import (
    CONTAINERD_2,
    CREATED,
    EXITED,
    READY,
    RUNNING,
    UNKNOWN,
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
)

pytestmark = pytest.mark.quick

INSIDE = RUNNING.inside("p1")
BEGUN = (up(), *looked(1, p1=READY))


def play(*facts: object) -> Play:
    """A story after a baseline at 1 s with the pod of uid u1."""
    return Play(*BEGUN, *facts, profile=CONTAINERD_2)  # type: ignore[arg-type]


def missed(of: Play) -> list[str]:
    """What was missed, and why."""
    return [line.replace(" missed ", " ") for line in of.judged if " missed " in line]


def ghosts_and_strays(of: Play) -> tuple[int, int]:
    """How many there are now."""
    return of.ledger.kernel.number(Verdict.GHOST), of.ledger.kernel.number(Verdict.STRAY)


# --- proofs -------------------------------------------------------------------


def test_what_lasted_must_be_announced() -> None:
    """Unless its end was seen by a late look: it may have been a failed start."""
    for exact in (True, False):
        life = (created("c1", 2), populated("c1", 2), emptied("c1", 5, exact=exact))
        seen = play(*life, deleted("c1", 5), *looked(9.9, p1=READY))
        assert missed(seen) == []
        seen.then(*looked(10.1, p1=READY))
        assert missed(seen) == exact * ["c1 ContainerStarted silent", "c1 ContainerDied silent"]


def test_a_container_that_neither_list_nor_stream_names_is_no_event() -> None:
    """It may be another client's container."""
    seen = play(populated("x", 2, ""), CgroupsRead(5), emptied("x", 6), *looked(20, p1=READY))
    assert seen.findings == []
    assert seen.ledger.kernel.cgroups == {}


def test_processes_elsewhere_prove_nothing() -> None:
    """A virtual machine's container is not where its cgroup is."""
    kata = replace(READY, elsewhere=True)
    named = created("c1", 2)._replace(sandbox_id="p1")
    seen = Play(up(), *looked(1, p1=kata), named, started("c1", 2), populated("c1", 2))
    seen.then(emptied("c1", 8), *looked(9, p1=kata, c1=INSIDE), *looked(20, p1=kata, c1=INSIDE))
    seen.then(*looked(30, p1=kata, c1=INSIDE), populated("c2", 30), CgroupsRead(35))
    seen.then(*looked(50, p1=kata, c1=INSIDE), *looked(60, p1=kata, c1=INSIDE))
    assert not {"missed silent", "ghost", "stray"} & {line.split(" ", 2)[2] for line in seen.judged}
    assert "c1 ContainerDied witnessed" not in seen.witnessed


def test_processes_found_to_be_elsewhere_excuse_what_waits() -> None:
    """The stream names a container before a list shows its sandbox."""
    kata = replace(READY, elsewhere=True)
    seen = play(created("c1", 2)._replace(sandbox_id="p2"), populated("c1", 2), CgroupsRead(5))
    seen.then(emptied("c1", 6), *looked(7, p1=READY, p2=kata, c1=EXITED.inside("p2")))
    seen.then(stopped("c1", 8), *looked(20, p1=READY, p2=kata, c1=EXITED.inside("p2")))
    assert "c1 ContainerStarted missed silent" not in seen.judged


# --- ghosts -------------------------------------------------------------------


def ghost_story() -> Play:
    """One that runs, and whose last process ended at 4 s."""
    facts = (started("c1", 2), populated("c1", 2), *looked(3, p1=READY, c1=INSIDE))
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


# --- what no small world has ---------------------------------------------------


def test_what_lasted_before_it_was_named_proves_its_start_then() -> None:
    """The stream names it, and is behind."""
    seen = play(populated("c1", 2), CgroupsRead(5), created("c1", 6))
    assert "c1 ContainerStarted witnessed" in seen.witnessed


@pytest.mark.parametrize(("end", "starts"), [(4, 0), (4.1, 1)])
def test_what_lasts_for_more_than_two_seconds_has_started(end: float, starts: int) -> None:
    """The kernel reported exactly when it ended; no list showed it, and it was only created."""
    seen = play(created("c1", 2), populated("c1", 2), emptied("c1", end))
    assert seen.witnessed.count("c1 ContainerStarted witnessed") == starts


def test_what_a_notification_repeats_is_no_news() -> None:
    """The first time counts, of the start as of the end; and what is not known has no end."""
    seen = play(populated("c1", 2), populated("c1", 3.9), *looked(4.1, p1=READY, c1=INSIDE))
    assert seen.witnessed.count("c1 ContainerStarted witnessed") == 1
    assert seen.ledger.kernel.cgroups["c1"].lasted == 4.1
    seen.then(emptied("c1", 8), emptied("c1", 9), stopped("c1", 11))
    assert seen.delays == ["c1 exit_announced 3"]
    seen.then(emptied("x", 12), *looked(20, p1=READY), *looked(30, p1=READY))
    assert ghosts_and_strays(seen) == (0, 0)


def test_a_start_is_as_old_as_the_read_that_showed_that_it_lasted() -> None:
    """Not as the event that names the container, or the end of its processes."""
    seen = play(populated("c1", 2), *looked(5, p1=READY), *looked(28, p1=READY))
    seen.then(emptied("c1", 30), stopped("c1", 31), deleted("c1", 31.5), *looked(33, p1=READY))
    assert "c1 ContainerStarted missed silent" in seen.judged


def test_an_exit_that_was_none_waits_for_nothing() -> None:
    """There are processes again before a list shows anything."""
    seen = play(started("c1", 2), populated("c1", 2), *looked(3, p1=READY, c1=INSIDE))
    seen.then(created("c1", 3.5), emptied("c1", 5))
    assert seen.ledger.unresolved == 1
    seen.then(populated("c1", 6))
    assert seen.ledger.unresolved == 0


def test_what_lasted_once_ran_although_its_last_processes_did_not() -> None:
    """So its exit is owed, where nothing else can say."""
    seen = play(created("c1", 2), populated("c1", 2), CgroupsRead(5), emptied("c1", 6))
    seen.then(populated("c1", 6.5), emptied("c1", 6.8), *looked(7, p1=READY, c1=EXITED))
    seen.then(*looked(8, p1=READY), *looked(20, p1=READY))
    assert "c1 ContainerDied missed silent" in seen.judged


def test_what_ended_is_forgotten_once_the_lists_agree() -> None:
    """Not while it is listed as UNKNOWN: it may be a ghost yet."""
    seen = ghost_story()
    seen.then(*looked(10, p1=READY, c1=UNKNOWN))
    seen.then(*looked(11, p1=READY, c1=INSIDE), *looked(12, p1=READY, c1=INSIDE))
    assert ghosts_and_strays(seen) == (1, 0)
    seen.then(*looked(13, p1=READY, c1=EXITED.inside("p1")))
    assert not seen.ledger.kernel.cgroups


def test_a_container_that_was_listed_may_become_a_stray() -> None:
    """The runtime forgot it, and its pod, too."""
    seen = play(started("c1", 2), populated("c1", 2))
    named = relist(3, p1=READY, c1=INSIDE)
    pod, container = named.items
    seen.then(CgroupsRead(3), replace(named, items=(pod, container._replace(name="web"))))
    seen.then(*looked(10), *looked(11))
    assert seen.judged[-1] == "c1 ContainerRemoved stray"
    assert seen.findings[-1].name == "web"
    seen.then(*looked(12, p1=READY, c1=INSIDE))
    assert ghosts_and_strays(seen) == (0, 0)


@pytest.mark.parametrize("state", [None, EXITED.inside("p1")])
def test_what_has_not_lasted_is_no_stray(state: Shown | None) -> None:
    """However short the grace: a start that fails has processes, too."""
    shown = {"c1": state} if state else {}
    seen = Play(*BEGUN, grace=0.5)
    seen.then(*looked(2, p1=READY, c1=CREATED.inside("p1")), populated("c1", 3))
    seen.then(*(fact for at in (3.1, 3.7, 4.3, 5) for fact in looked(at, p1=READY, **shown)))
    assert ghosts_and_strays(seen) == (0, 0)
    seen.then(*(fact for at in (5.1, 5.2) for fact in looked(at, p1=READY, **shown)))
    assert ghosts_and_strays(seen) == (0, 1)


def test_a_list_that_shows_it_running_again_restarts_the_grace() -> None:
    """It was listed as ended by mistake, and then once more."""
    over = EXITED.inside("p1")
    seen = play(started("c1", 2), populated("c1", 2), *looked(6, p1=READY, c1=over))
    seen.then(*looked(7.5, p1=READY, c1=over), *looked(8, p1=READY, c1=over))
    assert ghosts_and_strays(seen) == (0, 0)
    seen.then(*looked(9, p1=READY, c1=INSIDE), *looked(10, p1=READY, c1=over))
    seen.then(*looked(14, p1=READY, c1=over), *looked(15, p1=READY, c1=over))
    assert ghosts_and_strays(seen) == (0, 0)


def test_a_list_that_agrees_for_a_moment_spares_no_ghost() -> None:
    """Within the grace after its last process ended nothing is forgotten."""
    seen = ghost_story()
    seen.then(*looked(5, p1=READY, c1=EXITED))
    seen.then(*(fact for at in (10, 11) for fact in looked(at, p1=READY, c1=INSIDE)))
    assert ghosts_and_strays(seen) == (1, 0)


def test_processes_that_a_read_sees_after_two_seconds_sharp_have_not_lasted() -> None:
    """Only after more than that."""
    seen = play(created("c1", 2), populated("c1", 2), *looked(4, p1=READY, c1=CREATED))
    assert seen.witnessed == ["c1 ContainerChanged witnessed"]
