"""Stories of OOM kills: one container that begins after all that is counted, and what is found."""

from collections import Counter

from exporter.model.events import EventType
from exporter.model.facts import Fact, Killed, KillsCounted
from exporter.model.findings import Finding, Verdict
from exporter.model.labels import Limit, OomKill
from tests.support.facts import (
    EXITED,
    READY,
    RUNNING,
    Given,
    Play,
    Shown,
    Whole,
    created,
    emptied,
    populated,
    relist,
    said,
    started,
    up,
)

APP = RUNNING.inside("p1")
DEAD = EXITED.inside("p1")


def counted(at: float, number: int | None = 0) -> KillsCounted:
    """The node's count is so high now."""
    return KillsCounted(at, number)


def killed(
    at: float, container: str = "c1", number: int = 1, pod: str = "u1", limit: str = "CONTAINER"
) -> Killed:
    """So many processes of it were."""
    return Killed(at, container, pod, number, number, Limit[limit])


def ends(at: float, code: int = 137, reason: str = "OOMKilled", name: str = "c1") -> Fact:
    """Its STOPPED, and how it says that it ended."""
    return said(EventType.STOPPED, name, at)._replace(exit_code=code, reason=reason)


def began(name: str = "c1") -> list[Given]:
    """A container that begins after all that is counted."""
    return [
        up(),
        counted(1),
        relist(1, p1=READY),
        created(name, 2),
        started(name, 2.1),
        populated(name, 2.1),
        relist(10, p1=READY, **{name: APP}),
    ]


def lists(*times: float, **shown: Shown) -> list[Whole]:
    """Lists that show the pod, and what else."""
    return [relist(at, p1=READY, **shown) for at in times]


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
