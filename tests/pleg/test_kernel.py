"""The third witness: what cgroups prove, and what they contradict."""

from dataclasses import replace

import pytest

from exporter.model.events import Lifecycle, Pod
from exporter.model.facts import CgroupsLost, CgroupsRead
from exporter.model.findings import Verdict
from tests.support.facts import (
    CONTAINERD_2,
    EXITED,
    READY,
    RUNNING,
    Play,
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
    return of.ledger.number(Verdict.GHOST), of.ledger.number(Verdict.STRAY)


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
