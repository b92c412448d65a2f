"""The fourth witness: what the kubelet shows, where it is wrong, and how late it shows an exit."""

import pytest

from exporter.model.events import Announcement, Pod, Status
from exporter.model.facts import BeliefsShown, Believed
from exporter.model.findings import Verdict
from tests.support.facts import (
    EXITED,
    READY,
    RUNNING,
    Given,
    Play,
    emptied,
    looked,
    populated,
    relist,
    relists,
    stopped,
    up,
    wall_ns,
)

pytestmark = pytest.mark.quick

POD = Pod("shop", "cart", "u1")
KUBELET = {Verdict.STALE, Verdict.DISAGREES, Verdict.UNKNOWN_TO_KUBELET}
ENDED = Status("c1", EXITED.state, "web", 1, "Error")


def believed(at: float, *changed: Status, gone: tuple[str, ...] = (), pod: Pod = POD) -> Believed:
    """The kubelet shows its pod so."""
    return Believed(at, pod, changed, gone)


def running(at: float, *ids: str) -> Believed:
    """It shows these running."""
    return believed(at, *(Status(each, RUNNING.state, "web") for each in ids or ("c1",)))


def dropped(at: float, *gone: str, patience: float = 0.0) -> Believed:
    """It has the pod no longer."""
    return Believed(at, POD, (), gone or ("c1",), removed=True, patience=patience)


def exited(at: float, code: int | None = 1, reason: str = "Error") -> Announcement:
    """A STOPPED whose status says how it ended: at that time."""
    event = stopped("c1", at)._replace(received_wall_ns=wall_ns(at), ended_ns=wall_ns(at))
    return event._replace(exit_code=code, reason=reason)


BEGUN: tuple[Given, ...] = (up(), relist(1, c1=RUNNING), running(1.5), BeliefsShown(1.6))


def play(*facts: Given) -> Play:
    """A story after a baseline in which all know that `c1` runs."""
    return Play(*BEGUN, *facts)


def wrong(of: Play) -> list[str]:
    """What the kubelet has wrong: `c1 stale`."""
    return [f"{f.container_id} {f.verdict.value}" for f in of.findings if f.verdict in KUBELET]


def now(of: Play) -> tuple[int, int]:
    """How many statuses are stale, and containers unknown, now."""
    return of.ledger.number(Verdict.STALE), of.ledger.number(Verdict.UNKNOWN_TO_KUBELET)


# --- stale --------------------------------------------------------------------


def test_a_status_is_stale_once_lists_have_contradicted_it_for_half_a_minute() -> None:
    """Counted once; it ends with the kubelet's next word, and the pod's name is the kubelet's."""
    of = play(exited(2), *relists(10, 20, 30, 40, c1=EXITED))
    assert (wrong(of), now(of)) == ([], (0, 0))
    of.then(*relists(40.1, 50, c1=EXITED))
    assert (wrong(of), now(of)) == (["c1 stale"], (1, 0))
    assert of.findings[-1].pod == POD
    of.then(believed(51, ENDED))
    assert now(of) == (0, 0)


def test_while_the_kernel_shows_processes_no_status_is_stale() -> None:
    """The runtime lists it as exited, and the kubelet may be the one who is right."""
    seen = (populated("c1", 1.2), *looked(10, p1=READY, c1=EXITED.inside("p1")))
    of = play(*seen, *looked(41, p1=READY, c1=EXITED.inside("p1")))
    assert wrong(of) == []
    of.then(emptied("c1", 42), *looked(43, p1=READY, c1=EXITED.inside("p1")))
    of.then(*looked(74, p1=READY, c1=EXITED.inside("p1")))
    assert wrong(of) == ["c1 stale"]


# --- other ends ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "disagrees"),
    [
        (ENDED, False),
        (ENDED._replace(exit_code=137), True),
        (ENDED._replace(reason="ContainerStatusUnknown"), True),
        (ENDED._replace(reason=""), False),
        (ENDED._replace(reason="OOMKilled"), False),
        (ENDED._replace(exit_code=0, reason="OOMKilled"), True),
    ],
)
@pytest.mark.parametrize("first", ["the event", "the kubelet"])
def test_another_exit_code_or_reason_disagrees(shown: Status, disagrees: bool, first: str) -> None:  # noqa: FBT001
    """Whichever comes first, and once."""
    at = (2, 3) if first == "the event" else (3, 2)
    of = play(exited(at[0]), believed(at[1], shown), believed(4, shown), *relists(5, 6, c1=EXITED))
    assert wrong(of) == ["c1 disagrees"] * disagrees


@pytest.mark.parametrize(
    "event", [exited(2, code=None), exited(2, reason="")._replace(exit_code=137), stopped("c1", 2)]
)
def test_what_the_runtime_does_not_tell_is_not_compared(event: Announcement) -> None:
    """No status, or one without a reason."""
    assert wrong(play(event, believed(3, ENDED._replace(exit_code=137)))) == []


# --- unknown to the kubelet ---------------------------------------------------


def test_what_runs_on_after_its_pod_was_dropped_is_unknown_to_the_kubelet() -> None:
    """It has the time that its pod may take, and half a minute; then two lists have to show it."""
    of = play(dropped(10, patience=60), *relists(50, 101, 102, c1=RUNNING))
    assert wrong(of) == ["c1 unknown_to_kubelet"]
    assert now(of) == (0, 1)
    soon = play(dropped(10, patience=60), *relists(50, 100, 101, c1=RUNNING))
    assert wrong(soon) == []
    of.then(relist(110, c1=EXITED))
    assert now(of) == (0, 0)


# --- how late -----------------------------------------------------------------


def late(of: Play) -> list[str]:
    """How late the kubelet was: `exit 0.61`."""
    some = (Verdict.EXIT_BELIEVED, Verdict.EVENT_BELIEVED)
    found = [f for f in of.findings if f.verdict in some]
    return [f"{f.verdict.value.removesuffix('_believed')} {f.seconds:.2f}" for f in found]


def test_the_delay_of_the_kubelet_counts_from_the_exit_and_from_the_announcement() -> None:
    """Each once, however often it shows it again."""
    event = exited(2.06)._replace(ended_ns=wall_ns(2))
    of = play(event, believed(2.61, ENDED), believed(3, ENDED), relist(4, c1=EXITED))
    assert late(of) == ["exit 0.61", "event 0.55"]


def test_an_exit_without_a_known_time_is_measured_from_its_announcement() -> None:
    """Its status has no time, and no cgroup is observed."""
    assert late(play(exited(2)._replace(ended_ns=0), believed(3, ENDED))) == ["event 1.00"]
