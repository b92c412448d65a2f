"""The fourth witness: what the kubelet shows, where it is wrong, and how late it shows an exit."""

from dataclasses import replace

import pytest

from exporter.model.events import Announcement, Lifecycle, Pod, Status
from exporter.model.facts import BeliefsLost, BeliefsShown, Believed, CgroupsRead
from exporter.model.findings import Finding, Verdict
from tests.support.facts import (
    EXITED,
    NOTREADY,
    READY,
    RUNNING,
    Given,
    Play,
    Shown,
    emptied,
    looked,
    populated,
    relist,
    relists,
    stopped,
    up,
    wall_ns,
)

POD = Pod("shop", "cart", "u1")
OVERDUE = {Verdict.OVERDUE_KUBELET, Verdict.OVERDUE_PROCESS, Verdict.OVERDUE_RUNTIME}
KUBELET = {Verdict.STALE, Verdict.DISAGREES, Verdict.UNKNOWN_TO_KUBELET}
ENDED = Status("c1", EXITED.state, "web", 1, "Error")


def believed(at: float, *changed: Status) -> Believed:
    return Believed(at, POD, changed, ())


def dropped(at: float, *gone: str, patience: float = 0.0) -> Believed:
    return Believed(at, POD, (), gone or ("c1",), removed=True, patience=patience)


def asked(at: float, *changed: Status, removed: bool = False) -> Believed:
    """Its answer about the pod: what it has changed, or that it has no such pod."""
    return Believed(at, POD, changed, (), removed=removed, asked=True)


def exited(at: float, code: int | None = 1, reason: str = "Error") -> Announcement:
    """A STOPPED whose status says how it ended: at that time."""
    event = stopped("c1", at)._replace(received_wall_ns=wall_ns(at), ended_ns=wall_ns(at))
    return event._replace(exit_code=code, reason=reason)


RUNS = Status("c1", RUNNING.state, "web")
BEGUN: tuple[Given, ...] = (up(), relist(1, c1=RUNNING), believed(1.5, RUNS), BeliefsShown(1.6))


def play(*facts: Given) -> Play:
    """A story after a baseline in which all know that `c1` runs; small worlds have many more."""
    return Play(*BEGUN, *facts)


def test_the_kubelet_is_not_asked_before_it_has_shown_all() -> None:
    """Of a new watch, too: what it shows meanwhile may be old."""
    begins = Play(*BEGUN[:2], believed(1.5, ENDED._replace(exit_code=2)), exited(2))
    again = play(BeliefsLost(2), believed(3, RUNS), *relists(10, 50, 90, c1=EXITED))
    assert (begins.ledger.beliefs.doubted, again.ledger.beliefs.doubted) == ({}, {})


def test_a_pod_is_overdue_since_its_time_was_over() -> None:
    """Not since the first list after that."""
    seen = play(Believed(2, POD, (), (), due=10.0), *relists(12, 40.5, c1=EXITED))
    assert not seen.ledger.beliefs.doubted
    seen.then(*relists(41, c1=EXITED))
    assert seen.ledger.beliefs.doubted


def wrong(of: Play) -> list[str]:
    """What the kubelet has wrong: `c1 stale`."""
    return [f"{f.container_id} {f.verdict.value}" for f in of.findings if f.verdict in KUBELET]


def now(of: Play) -> tuple[int, int]:
    """How many statuses are stale, and containers unknown, now."""
    return of.ledger.number(Verdict.STALE), of.ledger.number(Verdict.UNKNOWN_TO_KUBELET)


def doubted(of: Play) -> list[str]:
    return list(of.ledger.beliefs.doubted)


def test_a_status_is_stale_once_the_kubelet_keeps_to_it_after_half_a_minute() -> None:
    """Counted once; it ends with the kubelet's next word, and the pod's name is the kubelet's."""
    of = play(exited(2), *relists(10, 20, 30, 40, c1=EXITED), asked(40.05))
    assert (wrong(of), doubted(of)) == ([], [])
    of.then(relist(40.1, c1=EXITED), asked(40.2))
    assert (wrong(of), doubted(of)) == ([], [])
    of.then(relist(50, c1=EXITED))
    assert (wrong(of), doubted(of)) == ([], ["u1"])
    of.then(asked(50.1))
    assert (wrong(of), now(of), doubted(of)) == (["c1 stale"], (1, 0), [])
    assert of.findings[-1].pod == POD
    of.then(relist(60, c1=EXITED), asked(60.1))
    assert (wrong(of), doubted(of)) == (["c1 stale"], [])
    of.then(believed(61, ENDED))
    assert now(of) == (0, 0)


@pytest.mark.parametrize(
    "story",
    [
        relists(10, 41, 42, 50, c1=RUNNING),
        [*relists(10, 41, 42, 50, c1=EXITED), populated("c1", 2)],
    ],
)
def test_what_a_list_or_the_kernel_shows_running_is_not_stale(story: list[Given]) -> None:
    of = play(*story, asked(51))
    assert (wrong(of), doubted(of)) == ([], [])


@pytest.mark.parametrize(("shown", "stale"), [((RUNS,), 1), ((), 0)])
def test_a_stale_status_is_one_for_as_long_as_the_next_watch_shows_it(
    shown: tuple[Status, ...], stale: int
) -> None:
    of = play(exited(2), *relists(10, 41, 42, c1=EXITED), asked(43))
    of.then(BeliefsLost(44), believed(45, *shown), BeliefsShown(46))
    assert now(of) == (stale, 0)
    assert of.ledger.known("c1") is not None


def test_only_an_answer_confirms_and_only_of_its_pod() -> None:
    """What it shows by itself may be older; another pod's status comes first."""
    others = Believed(1.4, Pod("shop", "bill", "u2"), (Status("a1", RUNNING.state),), ())
    of = Play(others, *BEGUN, exited(2), *relists(10, 41, 42, a1=RUNNING, c1=EXITED))
    of.then(believed(43, Status("c9", RUNNING.state)))
    assert (wrong(of), doubted(of)) == ([], ["u1"])
    of.then(asked(44))
    assert wrong(of) == ["c1 stale"]


def test_an_ended_container_that_the_kubelet_drops_or_keeps_is_not_wrong() -> None:
    kept = play(exited(2), believed(3, ENDED), *relists(10, 41, 42, 50, c1=EXITED))
    gone = play(believed(5, ENDED), dropped(10), *relists(50, 101, 102, c1=RUNNING))
    assert (doubted(kept), doubted(gone)) == ([], [])


def test_a_status_of_what_the_lists_lack_for_long_stays_stale() -> None:
    found = play(exited(2), *relists(10, 41, 42), asked(43), *relists(700, 701))
    assert (now(found), found.ledger.known("c1")) == ((1, 0), None)
    suspected = play(exited(2), *relists(10, 41, 42, 700, 701))
    assert (now(suspected), doubted(suspected)) == ((0, 0), [])


@pytest.mark.parametrize("at_first", [EXITED, RUNNING])
def test_what_had_ended_at_the_first_list_is_stale_from_before(at_first: Shown) -> None:
    """It is in no total, which each restart would raise."""
    of = Play(up(), relist(1, c1=at_first), believed(1.5, RUNS), BeliefsShown(1.6))
    of.then(*relists(10, 41, 42, c1=EXITED), asked(43))
    (found,) = (each for each in of.findings if each.verdict is Verdict.STALE)
    assert found.before == (at_first is EXITED)


def test_what_a_watch_shows_before_it_has_shown_all_is_no_news() -> None:
    of = Play(up(), relist(1, c1=RUNNING), believed(1.5, RUNS), exited(2), believed(2.5, ENDED))
    of.then(BeliefsShown(3))
    assert late(of) == []


def overdue(*facts: Given, statuses: tuple[Status, ...] = ()) -> list[Finding]:
    """What is found of a pod that should have ended at 5 s, once the kubelet was asked."""
    due = Believed(1.5, POD, statuses, (), due=5.0)
    others = Believed(1.4, Pod("shop", "bill", "u2"), (Status("a1", EXITED.state),), ())
    asks = replace(due, at=43.0, asked=True)
    of = Play(up(), others, due, BeliefsShown(1.6), *facts, asks)
    return [each for each in of.findings if each.verdict in OVERDUE]


BOTH_RUN = {"p1": READY, "c1": RUNNING.inside("p1"), "c2": RUNNING.inside("p1")}
RUNS_IN_POD = {"p1": READY, "c1": EXITED.inside("p1"), "c2": RUNNING.inside("p1")}


@pytest.mark.parametrize(
    ("story", "statuses", "named"),
    [
        # A container that runs, before its sandbox and others.
        (
            [CgroupsRead(0.5), populated("c2", 0.6), *relists(1, 10, 41, 42, **RUNS_IN_POD)],
            (),
            ("c2", Verdict.OVERDUE_PROCESS, Lifecycle.DIED),
        ),
        # Whose pod only the kubelet names.
        (
            [CgroupsRead(0.5), populated("c1", 0.6), *relists(1, 10, 41, 42, c1=RUNNING)],
            (RUNS,),
            ("c1", Verdict.OVERDUE_PROCESS, Lifecycle.DIED),
        ),
        (
            [
                populated("c1", 0.6),
                emptied("c1", 6),
                *(it for at in (1, 10, 41, 42) for it in looked(at, c1=RUNNING)),
            ],
            (RUNS,),
            ("c1", Verdict.OVERDUE_RUNTIME, Lifecycle.DIED),
        ),
        # One that the kubelet alone still shows; the pod itself.
        (relists(1, 10, 41, 42), (ENDED,), ("c1", Verdict.OVERDUE_KUBELET, Lifecycle.REMOVED)),
        (relists(1, 10, 41, 42), (), ("u1", Verdict.OVERDUE_KUBELET, Lifecycle.REMOVED)),
        # Not what has only just gone.
        (
            [*relists(1, 10, 41, p1=NOTREADY, c1=EXITED.inside("p1")), relist(42)],
            (),
            ("u1", Verdict.OVERDUE_KUBELET, Lifecycle.REMOVED),
        ),
    ],
)
def test_an_overdue_pod_is_named_by_what_is_left_of_it(
    story: list[Given], statuses: tuple[Status, ...], named: tuple[str, Verdict, Lifecycle]
) -> None:
    (found,) = overdue(*story, statuses=statuses)
    assert (found.container_id, found.verdict, found.event, found.pod) == (*named, POD)


@pytest.mark.parametrize(
    "story",
    [
        [CgroupsRead(0.5), populated("c2", 0.6), *relists(1, 10, 41, 42, **BOTH_RUN)],
        relists(1, 10, 41, 42, p1=READY),
        [believed(3), *relists(1, 10, 41, 42)],
    ],
)
def test_nobody_is_late_where_that_is_not_known(story: list[Given]) -> None:
    """The kernel sees not all that run, or nothing but a sandbox runs; or the pod may stay."""
    assert overdue(*story) == []


def test_who_is_late_has_patience_from_the_first_list_that_shows_it() -> None:
    """Its processes ended at last; the runtime has half a minute to notice that."""
    story: list[Given] = [populated("c1", 0.6), *looked(1, c1=RUNNING), *looked(10, c1=RUNNING)]
    story += [emptied("c1", 21), *relists(22, 38, 40, c1=RUNNING)]
    assert overdue(*story, statuses=(RUNS,)) == []


def test_an_overdue_pod_stays_one_until_a_watch_does_not_show_it() -> None:
    """Also over a restart of the kubelet that lists see: it is found once."""
    shows = Believed(1.5, POD, (RUNS,), (), due=5.0)
    of = Play(up(), relist(1, c1=RUNNING), shows, BeliefsShown(1.6), exited(2))
    of.then(*relists(10, 41, 42, c1=EXITED), replace(shows, at=43, changed=(), asked=True))
    assert of.ledger.number(Verdict.OVERDUE_KUBELET) == 1
    of.then(BeliefsLost(44), relist(45, c1=EXITED))
    assert of.ledger.number(Verdict.OVERDUE_KUBELET) == 1
    of.then(replace(shows, at=46), BeliefsShown(47), *relists(50, 60, 70, c1=EXITED))
    of.then(replace(shows, at=71, changed=(), asked=True))
    assert of.ledger.number(Verdict.OVERDUE_KUBELET) == 1
    assert [each.verdict for each in of.findings].count(Verdict.OVERDUE_KUBELET) == 1
    of.then(BeliefsLost(72), BeliefsShown(73))
    assert of.ledger.number(Verdict.OVERDUE_KUBELET) == 0


def test_for_two_minutes_after_a_restart_the_kubelet_is_not_even_asked() -> None:
    """What it shows may be the API server's; a watch that follows soon does not shorten that."""
    of = play(BeliefsLost(2), exited(3), believed(4, RUNS), BeliefsShown(5, restarted=True))
    of.then(relist(10, c1=EXITED), BeliefsLost(11), believed(12, RUNS), BeliefsShown(13))
    of.then(*relists(20, 51, 100, 125, c1=EXITED))
    assert doubted(of) == []
    of.then(relist(126, c1=EXITED))
    assert doubted(of) == ["u1"]


@pytest.mark.parametrize(
    "event", [exited(2, code=None), exited(2, reason="")._replace(exit_code=137), stopped("c1", 2)]
)
def test_what_the_runtime_does_not_tell_is_not_compared(event: Announcement) -> None:
    of = play(event, believed(3, ENDED._replace(exit_code=137)))
    assert (wrong(of), doubted(of)) == ([], [])


def test_what_runs_on_after_its_pod_was_dropped_is_unknown_to_the_kubelet() -> None:
    """It has the time that its pod may take, and half a minute; then two lists have to show it."""
    of = play(dropped(10, "other", "c1", patience=60), *relists(50, 101, c1=RUNNING))
    assert doubted(of) == []
    of.then(relist(102, c1=RUNNING), asked(103, removed=True))
    assert (wrong(of), now(of)) == (["c1 unknown_to_kubelet"], (0, 1))
    soon = play(dropped(10, patience=60), *relists(50, 100, 101, c1=RUNNING))
    assert doubted(soon) == []
    of.then(relist(110, c1=EXITED))
    assert now(of) == (0, 0)


def test_a_pod_that_the_kubelet_has_after_all_leaves_nothing_behind() -> None:
    of = play(dropped(10), *relists(50, 60, c1=RUNNING))
    assert doubted(of) == ["u1"]
    of.then(asked(61), *relists(70, 80, c1=RUNNING))
    assert (wrong(of), doubted(of)) == ([], [])


def late(of: Play) -> list[str]:
    """How late the kubelet was: `exit 0.61`."""
    some = (Verdict.EXIT_BELIEVED, Verdict.EVENT_BELIEVED)
    found = [f for f in of.findings if f.verdict in some]
    return [f"{f.verdict.value.removesuffix('_believed')} {f.seconds:.2f}" for f in found]


def test_the_delay_of_the_kubelet_counts_from_the_exit_and_from_the_announcement() -> None:
    event = exited(2.06)._replace(ended_ns=wall_ns(2))
    of = play(event, believed(2.61, ENDED), believed(3, ENDED), relist(4, c1=EXITED))
    assert late(of) == ["exit 0.61", "event 0.55"]


def test_an_exit_without_a_known_time_is_measured_from_its_announcement() -> None:
    assert late(play(exited(2)._replace(ended_ns=0), believed(3, ENDED))) == ["event 1.00"]


def test_an_exit_that_the_kernel_notifies_last_is_measured_then() -> None:
    of = play(populated("c1", 1.7), believed(3, ENDED))
    assert late(of) == []
    of.then(emptied("c1", 2.9))
    assert late(of) == ["exit 0.10"]
