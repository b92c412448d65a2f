"""OOM kills that nobody told of, as they were reported."""

from collections.abc import Sequence

import pytest

from exporter.model.events import EventType
from exporter.model.facts import Killed, KillsCounted
from exporter.model.findings import Finding, Verdict
from exporter.model.labels import Limit, OomKill
from tests.support.facts import (
    EXITED,
    READY,
    RUNNING,
    Given,
    Play,
    created,
    emptied,
    populated,
    relist,
    said,
    started,
    up,
)

pytestmark = pytest.mark.quick

APP, DEAD = RUNNING.inside("p1"), EXITED.inside("p1")
KILLED = Killed(20, "c1", "u1", 1, 1, Limit.CONTAINER)
# On systemd its folder is gone as soon as it is empty.
OF_POD = Killed(20, "", "u1", 1, 1, Limit.CONTAINER)


def life(*story: Given, over: bool = False) -> list[Finding]:
    """What is found of kills in the life of one container, and that names it."""
    play = Play(
        *(up(), KillsCounted(0.5, 0), relist(1, p1=READY)),
        *(created("c1", 2), started("c1", 2.1), populated("c1", 2.1)),
        relist(10, p1=READY, c1=APP),
        *story,
        KillsCounted(21, sum(isinstance(each, Killed) for each in story)),
        *(relist(at, p1=READY, c1=DEAD if over else APP) for at in (30, 40, 50)),
    )
    found = [each for each in play.findings if each.verdict is Verdict.OOM]
    assert all(each.container_id == "c1" for each in found)
    kills = [each for each in found if each.cause is not OomKill.REASON_ONLY]
    assert all(each.pod is not None and each.pod.uid == "u1" for each in kills)
    return found


def kinds(found: Sequence[Finding]) -> list[object]:
    """What became of them."""
    return [each.cause for each in found]


def ends(code: int, reason: str) -> Given:
    """Its STOPPED."""
    return said(EventType.STOPPED, "c1", 20.1)._replace(exit_code=code, reason=reason)


def test_a_worker_is_killed_and_its_server_lives() -> None:
    """https://github.com/kubernetes/kubernetes/issues/69676

    Workers of gunicorn were killed again and again. The pod stayed Running, with 0 restarts.
    """
    (found,) = life(KILLED)
    assert (found.cause, found.limit) == (OomKill.SURVIVED, Limit.CONTAINER)


@pytest.mark.parametrize("kill", [KILLED, OF_POD])
def test_a_kill_is_announced_as_an_error(kill: Killed) -> None:
    """https://github.com/containerd/containerd/issues/12260

    containerd's shim began to watch for it after the start, and read the count when it was gone:
    the reason was Error for ever.
    """
    found = life(kill, emptied("c1", 20), ends(137, "Error"), over=True)
    assert kinds(found) == [OomKill.ANNOUNCED_AS_ERROR]


def test_a_count_is_gone_with_its_container() -> None:
    """https://github.com/google/cadvisor/issues/3015

    `container_oom_events_total` was 0 on every node: its series went with the container.
    """
    found = life(OF_POD, emptied("c1", 20), ends(137, "OOMKilled"), over=True)
    assert kinds(found) == [OomKill.ANNOUNCED]


def test_a_pod_succeeded_and_was_oom_killed() -> None:
    """https://github.com/kubernetes/kubernetes/issues/104454

    A child was killed, init ended with 0, and the reason was OOMKilled: two facts in one word.
    """
    found = life(KILLED, emptied("c1", 20), ends(0, "OOMKilled"), over=True)
    assert kinds(found) == [OomKill.SURVIVED, OomKill.REASON_ONLY]


def test_an_oom_at_a_limit_that_killed_nobody_is_none() -> None:
    """https://github.com/containerd/containerd/issues/7102

    An event told of an OOM; the count of kills had not risen. The reader counts kills alone: here
    nothing has, and a word of it is one.
    """
    found = life(emptied("c1", 20), ends(137, "OOMKilled"), over=True)
    assert kinds(found) == [OomKill.REASON_ONLY]
