"""The verdicts, an example of each; and what needs other times or answers than small worlds have.

The grace is 5 s, the runtime containerd 2.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.model.events import Announcement, Inquiry, Lifecycle, ObjectKind, Pod
from exporter.model.facts import Inquired, Relist, StreamDown, StreamUnproven
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import Never
from exporter.pleg.entry import Entry
from exporter.pleg.memory import RETENTION
from exporter.pleg.owed import is_gap, never_rule, start_in_doubt
from exporter.runtimes.runtime import Profile
from tests.support.facts import (
    CONTAINERD_2,
    CREATED,
    CRIO,
    EXITED,
    NOTREADY,
    READY,
    RUNNING,
    UNKNOWN,
    Given,
    Play,
    Shown,
    Whole,
    beat,
    created,
    deleted,
    looked,
    of_sandbox,
    profile,
    relist,
    relists,
    started,
    stopped,
    up,
    wall_ns,
)
from tests.support.stories import stories

BOOK = Path(__file__).with_name("stories.yaml")
VERDICTS, RULES = (stories(BOOK, chapter) for chapter in ("verdicts", "rules"))


@pytest.mark.parametrize(("facts", "judged"), VERDICTS.values(), ids=VERDICTS)
def test_a_story_has_its_verdicts(facts: list[Given], judged: list[str]) -> None:
    assert RETENTION == 600
    assert Play(*facts).judged == judged


@pytest.mark.parametrize(("facts", "verdict"), RULES.values(), ids=RULES)
def test_a_rule_leads_to_this_verdict(facts: list[Given], verdict: list[str]) -> None:
    """Of one event; none if only that is named."""
    event = " ".join(verdict[0].split()[:2])
    judged = [line for line in Play(*facts).judged if line.startswith(event)]
    assert judged == [line for line in verdict if line != event]


def test_a_gap_whose_container_lived_in_a_stall_is_explained_by_it() -> None:
    """As on a real node: its start was announced while the stream stood still, and never came."""
    play = Play(up(), beat(1), created("c1", 1.5), relist(2), quiet=True)
    play.then(relist(12, c1=EXITED), Inquired(12.1, "c1", Inquiry.STARTED))
    play.then(*relists(22, 32, 43, c1=EXITED), StreamUnproven(44), beat(50))
    assert play.judged == ["c1 ContainerChanged unseen", "c1 ContainerDied missed stalled"]
    play.then(relist(52, c1=EXITED), deleted("c1", 600), beat(601), *relists(602, 610, 612))
    assert play.judged[-2:] == ["c1 ContainerRemoved confirmed", "c1 ContainerStarted gap stalled"]


def test_what_goes_with_its_sandbox_is_not_judged_before_that_has_gone() -> None:
    """CRI-O announces no removal of a container that goes with its sandbox, which takes a while."""
    ended = {"p1": NOTREADY, "c1": EXITED.inside("p1")}
    begun = up(), relist(1, p1=READY), created("c1", 1), relist(3, **ended)
    stops = relists(5, 11, 17, p1=NOTREADY)
    play = Play(*begun, *stops, profile=CRIO)
    assert not [line for line in play.judged if "Removed" in line]
    announced = Play(*begun, *stops, deleted("c1", 17.5), relist(18), profile=CRIO)
    assert "c1 ContainerRemoved confirmed" in announced.judged
    alone = [*relists(1, 2, p1=READY), relist(3, **ended | {"p1": READY})]
    before = Play(up(), *alone, relist(5, p1=READY), *relists(6, 11), profile=CRIO)
    assert "c1 ContainerRemoved missed silent" in before.judged
    (found,) = (
        each
        for each in play.then(relist(18), relist(24))
        if each.verdict is Verdict.MISSED and each.event is Lifecycle.REMOVED
        if each.container_id == "c1"
    )
    assert (found.cause, found.rule) == (Cause.BY_DESIGN, Never.REMOVED_WITH_SANDBOX)


def test_a_list_does_not_lack_what_was_announced_after_its_request() -> None:
    play = Play(up(), relist(1), created("c1", 2.5), started("c1", 2.6), Whole(2.0, 3.0, ()))
    play.then(relist(4, c1=RUNNING), relist(20, c1=RUNNING))
    assert play.witnessed == ["c1 ContainerStarted witnessed"]


def test_no_subscription_is_served_in_its_first_half_second() -> None:
    """Not even by a runtime that registers a subscriber at once."""
    facts = (up(), relist(1, c1=RUNNING), StreamDown(5), up(10), relist(10.2, c1=RUNNING))
    play = Play(*facts, *relists(10.4, 16, 22, c1=EXITED), profile=CRIO)
    assert play.judged == ["c1 ContainerDied missed stalled"]


@pytest.mark.parametrize("profile", [CRIO, CONTAINERD_2])
@pytest.mark.parametrize("ran", [False, True])
def test_crio_does_not_announce_that_it_removes_what_failed_to_start(
    profile: Profile, *, ran: bool
) -> None:
    """It does so at once (server/container_start.go, since 1.31)."""
    play = Play(
        up(), relist(1, p1=READY), created("c1", 2), *[started("c1", 2.1)] * ran, profile=profile
    )
    play.then(relist(3, p1=READY, c1=(RUNNING if ran else CREATED).inside("p1")))
    play.then(*([stopped("c1", 4)] * ran), relist(5, p1=READY), relist(20, p1=READY))
    cause = "by_design" if profile is CRIO and not ran else "silent"
    assert f"c1 ContainerRemoved missed {cause}" in play.judged


def test_what_waits_is_judged_though_a_later_step_already_was() -> None:
    """The removal by a rule; of the exit nothing is known before another event comes."""
    shown = {"p1": READY, "c1": RUNNING.inside("p1")}, {"p1": NOTREADY, "c1": EXITED.inside("p1")}
    play = Play(
        up(),
        beat(0.5),
        *(relist(at, **it) for at, it in enumerate(shown, 1)),
        quiet=True,
        profile=CRIO,
    )
    play.then(*relists(3, 9), beat(20), relist(21))
    of_c1 = [line for line in play.judged if line.startswith("c1")]
    assert of_c1 == ["c1 ContainerRemoved missed by_design", "c1 ContainerDied missed silent"]


def test_what_waits_is_judged_though_a_later_step_was_seen_by_the_stream_alone() -> None:
    play = Play(up(), beat(0.5), relist(1), relist(2, c1=CREATED), quiet=True)
    play.then(started("c1", 3), stopped("c1", 3.5), *relists(4, 9, c1=EXITED))
    assert play.judged == ["c1 ContainerDied confirmed", "c1 ContainerStarted unseen"]
    play.then(beat(20), relist(21, c1=EXITED))
    assert play.judged[2:] == ["c1 ContainerChanged missed silent"]


def test_an_event_made_at_the_time_of_the_baseline_is_not_before_it() -> None:
    play = Play(up(0.5), relist(1), created("c1", 2, made=1), relist(3), relist(10))
    assert play.witnessed == ["c1 ContainerDied witnessed", "c1 ContainerRemoved witnessed"]


BEGUN = (up(), *looked(1, p1=READY))


def test_what_has_no_time_is_neither_backlog_nor_from_before_the_baseline() -> None:
    event = created("c1", 4)._replace(created_at_ns=0)
    play = Play(up(1), *looked(3, p1=READY), event, *relists(5, 11, p1=READY))
    assert play.judged == ["c1 ContainerChanged unseen", "c1 ContainerRemoved missed silent"]


def arrival(at: float, made: float) -> Announcement:
    """Another container's event that arrives then, by the wall clock, too; made at 0: no time."""
    event = deleted("c9", at, made=made)._replace(received_wall_ns=wall_ns(at))
    return event if made else event._replace(created_at_ns=0)


@pytest.mark.parametrize(
    ("event", "reached"),
    [
        (arrival(7.1, made=7.1), True),
        (arrival(7.1, made=6.9), False),
        (arrival(7.1, made=0), True),
        (arrival(6.9, made=7.4), False),
    ],
    ids=["just made", "made before", "without a time", "from the future"],
)
def test_a_miss_is_proven_by_an_event_that_was_made_after_the_grace(
    event: Announcement, *, reached: bool
) -> None:
    """None comes out of order, and none is made after it has arrived. The youngest is named."""
    lists = relists(2, 8, p1=READY, c1=RUNNING)
    play = Play(*BEGUN, beat(0.1), *lists, event, quiet=True)
    assert ("c1 ContainerStarted missed silent" in play.judged) is reached
    named = {f.other for f in play.findings if f.cause is Cause.SILENT}
    assert named == ({"c9"} if reached else set())
    assert {f.other for f in play.findings if f.cause is not Cause.SILENT} == {""}


def test_an_event_from_before_a_watch_does_not_show_that_it_is_served() -> None:
    play = Play(*BEGUN, beat(0.1), started("c1", 2), relist(3, p1=READY, c1=RUNNING), quiet=True)
    play.then(StreamUnproven(5))
    play.then(beat(4.9))
    play.then(*relists(6, p1=READY, c1=RUNNING), *relists(7, 14, p1=READY, c1=EXITED), beat(13))
    assert "c1 ContainerDied missed stalled" in play.judged
    assert {found.other for found in play.findings} == {""}


def test_one_stall_is_enough() -> None:
    """What the same relist finds lost after it does not hide it."""
    early = (created("c1", 1.1), deleted("c1", 1.2), relist(2, p1=READY, c1=CREATED, c2=RUNNING))
    old = deleted("c3", 55, made=10)._replace(received_wall_ns=wall_ns(55))
    lists = relists(20, 56, p1=READY, c1=RUNNING, c2=RUNNING)
    play = Play(*BEGUN, beat(0.1), *early, old, *lists, quiet=True)
    missed = [line for line in play.judged if "missed" in line]
    assert missed == ["c1 ContainerStarted missed stalled", "c2 ContainerStarted missed silent"]
    assert play.ledger.stalls == 1


def test_what_is_missed_in_one_stall_is_one_stall() -> None:
    lists = (relist(3, c1=RUNNING), *relists(20, 40, 60, c1=RUNNING, c2=RUNNING))
    play = Play(up(), beat(0.1), relist(1), *lists, quiet=True)
    starts = [f"{each} ContainerStarted missed stalled" for each in ("c1", "c2")]
    assert (play.judged, play.ledger.stalls) == (starts, 1)
    both = {"c1": RUNNING, "c2": RUNNING}
    play.then(beat(61), *relists(62, 63, **both), *relists(64, 100, c3=RUNNING, **both))
    assert (play.judged[-1], play.ledger.stalls) == ("c3 ContainerStarted missed stalled", 2)


def test_a_stall_counts_whenever_the_clock_began() -> None:
    lists = relists(-10, 30, c1=RUNNING)
    play = Play(up(-30), beat(-29), relist(-20), *lists, quiet=True)
    assert (play.judged, play.ledger.stalls) == (["c1 ContainerStarted missed stalled"], 1)


@pytest.mark.parametrize(("announced", "doubted"), [(None, False), (2.0, True)])
def test_an_announced_exit_is_in_doubt_where_failed_starts_are_announced_too(
    announced: float | None, *, doubted: bool
) -> None:
    """One that no event announced, and no list has just shown, needs no answer."""
    entry = Entry("c1", state=EXITED.state)
    entry.steps[Lifecycle.DIED].announced = announced
    assert start_in_doubt(entry, profile(Never.STOPPED_ONLY_IF_RAN)) is doubted
    assert not start_in_doubt(entry, profile())
    entry.ran = True
    assert not start_in_doubt(entry, profile(Never.STOPPED_ONLY_IF_RAN))


@pytest.mark.parametrize(
    ("kind", "listed", "never", "gap"),
    [
        (ObjectKind.SANDBOX, False, Never.SANDBOX_FAILED, True),
        (ObjectKind.SANDBOX, True, Never.SANDBOX_FAILED, False),
        (ObjectKind.SANDBOX, True, Never.STOPPED_ONLY_IF_RAN, True),
        (ObjectKind.CONTAINER, True, Never.STOPPED_ONLY_IF_RAN, False),
        (ObjectKind.CONTAINER, True, Never.SANDBOX_FAILED, True),
    ],
)
def test_an_exit_shows_that_a_start_is_missing_unless_it_may_have_failed(
    kind: ObjectKind, never: Never, *, listed: bool, gap: bool
) -> None:
    entry = Entry("c1", kind, listed=listed)
    entry.steps[Lifecycle.DIED].announced = 2.0
    assert is_gap(entry, Lifecycle.STARTED, profile(never)) is gap


@pytest.mark.parametrize(
    ("heard", "found"),
    [
        ([], ["p1 ContainerDied missed by_design"]),
        (
            [of_sandbox(created("p1", 2.5))],
            ["p1 ContainerChanged unseen", "p1 ContainerDied missed silent"],
        ),
    ],
    ids=["nothing", "its creation"],
)
def test_a_sandbox_that_failed_to_set_up_owes_no_exit_and_misses_no_creation(
    heard: list[Given], found: list[str]
) -> None:
    """If cleaning up failed, too, it is listed until it is removed, and only that is announced."""
    play = Play(up(), relist(1), *heard, *relists(3, 10, 20, p1=NOTREADY))
    play.then(of_sandbox(deleted("p1", 21)), *relists(22, 30))
    assert play.judged == [*found, "p1 ContainerRemoved confirmed"]


@pytest.mark.parametrize(
    ("gone", "announced", "forced"), [(True, None, True), (True, 2.0, False), (False, None, False)]
)
def test_a_forced_removal_is_one_of_the_whole_pod_without_an_exit(
    announced: float | None, *, gone: bool, forced: bool
) -> None:
    entry = Entry("c1", ObjectKind.CONTAINER, gone_while_running=True, ran=True)
    sandbox = Entry("p1", ObjectKind.SANDBOX, gone_while_running=gone)
    sandbox.steps[Lifecycle.DIED].announced = announced
    rule = never_rule(entry, Lifecycle.DIED, sandbox, profile(Never.FORCED_REMOVAL))
    assert rule == (Never.FORCED_REMOVAL if forced else None)


@pytest.mark.parametrize(("of", "cause"), [(CRIO, "silent"), (CONTAINERD_2, "stream_down")])
def test_who_serves_a_subscriber_at_once_owes_what_comes_before_any_event(
    of: Profile, cause: str
) -> None:
    play = Play(up(), relist(1), relist(2, c1=RUNNING), beat(9), quiet=True, profile=of)
    play.then(relist(10, c1=RUNNING))
    assert play.judged == [f"c1 ContainerStarted missed {cause}"]


@pytest.mark.parametrize(
    ("shown", "never", "doubts"),
    [
        (EXITED, [Never.STOPPED_ONLY_IF_RAN], ("c1",)),
        (CREATED, [Never.STOPPED_ONLY_IF_RAN], ()),
        (EXITED, [], ()),
    ],
)
def test_a_container_whose_start_is_in_doubt_is_named_with_its_exit(
    shown: Shown, never: list[Never], doubts: tuple[str, ...]
) -> None:
    play = Play(up(), relist(1), relist(2, c1=shown), profile=profile(*never))
    assert play.ledger.judge(stopped("c1", 3)).doubts == doubts


def test_a_list_that_knows_less_takes_nothing_back() -> None:
    pod, items = Pod("shop", "web"), relist(2, p1=replace(NOTREADY, state=UNKNOWN.state)).items
    lists = [
        items[0]._replace(name="web", pod=None),
        items[0]._replace(name="", pod=pod),
        items[0]._replace(name="", pod=None, sandbox_id="p2", state=NOTREADY.state),
    ]
    play = Play(up(), relist(1), profile=profile())
    play.then(*(replace(relist(2 + at), items=(item,)) for at, item in enumerate(lists)))
    missed = [each for each in play.then(relist(20)) if each.verdict is Verdict.MISSED]
    assert [(each.name, each.pod, each.cause) for each in missed] == [("web", pod, Cause.SILENT)]


def test_differences_that_contradict_each_other_do_no_harm() -> None:
    """A file may say anything: what is gone was never there, or is there at once."""
    (item,) = relist(0, c1=RUNNING).items
    play = Play(up(), relist(1), Relist(2, 2, 1, (item, item), ("c1", "c2")))
    play.then(Relist(3, 3, 0, (), ("c1", "c1")), *relists(20, 40))
    assert play.ledger.unresolved == 0
