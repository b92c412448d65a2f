"""Verdicts that do not cry wolf: a stream that stands still, and what may not have been owed."""

import pytest

from exporter.pleg.events import Announcement, Relist
from exporter.pleg.facts import (
    Discarded,
    Fact,
    StreamDown,
    StreamRefused,
    StreamUnproven,
    StreamUp,
)
from exporter.pleg.profiles import profile_of
from tests.support.facts import (
    CRIO,
    EPOCH_NS,
    EXITED,
    NOTREADY,
    RUNNING,
    Play,
    beat,
    created,
    deleted,
    of_sandbox,
    relist,
    started,
    stopped,
    up,
    wall_ns,
)

NAMES = ["c0", "c1"]
OLD = profile_of("containerd", "1.7.24")


def proven(names: list[str], at: float) -> Relist:
    """A relist that shows them running."""
    return relist(at, **dict.fromkeys(names, RUNNING))


def heard(object_id: str, at: float, made: float) -> Announcement:
    """STARTED, created at `made`, with the time at which it came."""
    return started(object_id, at, made=made)._replace(received_wall_ns=wall_ns(at))


def watched(*facts: Fact) -> Play:
    """An event came before the baseline; then these run, and no event comes but in `facts`."""
    return Play(up(), beat(0.5), relist(1), proven(NAMES, 10), *facts, quiet=True)


def causes(play: Play, names: list[str] = NAMES) -> list[str]:
    """How their starts were judged so far, in order."""
    lines = [line for line in play.judged if line.split()[0] in names]
    return [line.split(" ", 2)[2] for line in lines if "ContainerStarted" in line]


# --- a younger event proves a loss, and silence is a stall --------------------


@pytest.mark.parametrize("later", [16.0, 30.0, 40.0])
def test_a_proof_waits_for_a_younger_event(later: float) -> None:
    """Half a minute, however many relists follow: the announcement may still come."""
    play = watched(proven(NAMES, later))
    assert causes(play) == []
    assert play.ledger.unresolved == len(NAMES)
    assert play.ledger.stalls == 0


@pytest.mark.parametrize(("made", "lost"), [(10, False), (15, False), (15.1, True)])
def test_an_event_that_was_made_after_the_grace_shows_that_the_others_were_lost(
    made: float, *, lost: bool
) -> None:
    """The stream keeps its order: what did not come before it does not come any more."""
    play = watched(heard("new", 21, made=made), proven([*NAMES, "new"], 25))
    assert causes(play) == ["missed silent"] * len(NAMES) * lost
    assert play.ledger.stalls == 0


def test_old_events_do_not_show_that_the_others_were_lost() -> None:
    """A neighbour that reads slowly lets events through one by one, long after they were made."""
    trickle = (heard(f"t{n}", 12.0 + n, made=8 + 0.2 * n) for n in range(20))
    play = watched(*trickle, proven(NAMES, 35))
    assert causes(play) == []
    play.then(heard("c0", 36, made=9.5))
    assert causes(play) == ["confirmed"]


def test_an_event_is_due_only_after_the_one_before_it_came() -> None:
    """Containerd makes STARTED of a sandbox only once its CREATED, which waited, has been sent."""
    late = created("c0", 21, made=9)._replace(received_wall_ns=wall_ns(21))
    play = watched(heard("new", 20, made=16), late, proven([*NAMES, "new"], 22))
    assert causes(play, ["c0"]) == []
    assert causes(play, ["c1"]) == ["missed silent"]
    play.then(heard("new", 26.2, made=26.1), proven([*NAMES, "new"], 27))
    assert causes(play, ["c0"]) == ["missed silent"]


def test_nothing_in_time_is_a_stall() -> None:
    """It accuses nobody; it lasts until an event comes that is younger, and counts once."""
    play = watched(proven(NAMES, 40.1), proven([*NAMES, "c2"], 50), proven([*NAMES, "c2"], 90))
    assert causes(play, [*NAMES, "c2"]) == ["missed stalled"] * 3
    assert play.ledger.stalls == 1
    play.then(heard("c0", 91, made=9))
    assert causes(play, ["c0"]) == ["missed stalled", "late stalled"]
    play.then(proven([*NAMES, "c2", "c3"], 100), proven([*NAMES, "c2", "c3"], 140))
    assert play.ledger.stalls == 1
    play.then(heard("new", 141, made=141), proven([*NAMES, "c2", "c3", "new", "c4"], 150))
    play.then(proven([*NAMES, "c2", "c3", "new", "c4"], 190))
    assert play.ledger.stalls == 2


def test_an_event_that_is_no_younger_than_the_stall_does_not_end_it() -> None:
    """It was made in the moment in which the stall was found."""
    as_old = started("c0", 40.1)._replace(created_at_ns=0)
    now = [*NAMES, "c2"]
    play = watched(proven(NAMES, 40.1), as_old, proven(now, 50), proven(now, 90))
    assert causes(play, ["c2"]) == ["missed stalled"]
    assert play.ledger.stalls == 1


def test_silence_lasts_for_six_times_the_grace() -> None:
    """So that one setting fits a slow runtime."""
    play = Play(up(), beat(0.5), relist(1), proven(NAMES, 10), grace=60, quiet=True)
    play.then(proven(NAMES, 370))
    assert causes(play) == []
    play.then(proven(NAMES, 371))
    assert causes(play) == ["missed stalled"] * len(NAMES)


def test_an_event_without_a_time_is_as_old_as_its_arrival() -> None:
    """Else a runtime that sends none would always stand still."""
    timeless = started("new", 21)._replace(created_at_ns=0, received_wall_ns=EPOCH_NS)
    play = watched(timeless, proven([*NAMES, "new"], 30))
    assert causes(play) == ["missed silent"] * len(NAMES)


def test_on_an_exclusive_stream_another_subscriber_may_have_it() -> None:
    """Nothing is ever silent there, whatever comes: `shared`, also where a later step came."""
    story = (up(), relist(1), proven(NAMES, 10), stopped("c2", 15), proven(NAMES, 21))
    play = Play(*story, profile=OLD)
    assert causes(play, [*NAMES, "c2"]) == ["missed shared"] * len(NAMES) + ["gap shared"]
    assert play.ledger.stalls == 0


# --- whether the runtime served the subscription ------------------------------


def test_a_renewed_subscription_may_have_begun_after_what_it_did_not_bring() -> None:
    """Its first event is younger, and nothing shows that the runtime served it before."""
    play = Play(up(), beat(0.5), relist(1), StreamUnproven(8), quiet=True)
    play.then(proven(NAMES, 10), heard("new", 21, made=21), proven([*NAMES, "new"], 30))
    assert causes(play) == ["missed stalled"] * len(NAMES)
    assert play.ledger.stalls == 1


def test_what_waits_when_a_lease_runs_out_may_have_come_over_it() -> None:
    """No younger event came over the old subscription: the new one's prove nothing about it."""
    play = watched(StreamUnproven(12), heard("new", 21, made=21), proven([*NAMES, "new"], 30))
    assert causes(play) == ["missed stalled"] * len(NAMES)


def test_nor_does_a_new_connection_tell_of_what_waited_for_the_old_one() -> None:
    """Whether that had ended or not."""
    for at in (10, 12):
        play = watched(up(at), heard("new", 21, made=21), proven([*NAMES, "new"], 30))
        assert causes(play) == ["missed stalled"] * len(NAMES)


def test_a_refused_stream_was_down() -> None:
    """What happened since the last list may have happened while there was none."""
    play = Play(up(), beat(0.5), relist(1), StreamRefused(4), up(6), quiet=True)
    play.then(proven(NAMES, 7), proven(NAMES, 13))
    assert causes(play) == ["missed stream_down"] * len(NAMES)


def test_discards_last_until_the_last_one() -> None:
    """Several are one fact, which begins with the first."""
    play = Play(up(), relist(6), Discarded(5, 8, 2), proven(NAMES, 9), proven(NAMES, 20))
    assert causes(play) == ["missed discarded"] * len(NAMES)


def test_an_event_of_the_old_subscription_that_is_taken_later_is_not_the_first_of_the_new() -> None:
    """It came before, and waited in the queue."""
    play = Play(up(), beat(0.5), relist(1), quiet=True)
    play.then(StreamUnproven(8))
    play.then(heard("old", 7.9, made=7.9))
    play.then(proven(["c0"], 10), heard("new", 21, made=21), proven(["c0", "new"], 30))
    assert causes(play, ["c0"]) == ["missed stalled"]


def test_a_new_connection_counts_as_up_from_its_first_event_on() -> None:
    """What happened before is excused, whether it was proven before that event or after it."""
    play = Play(up(), relist(1), proven(["c0"], 10), quiet=True)
    play.then(heard("new", 14, made=13), proven(["c0", "c1", "new"], 20), beat(26))
    play.then(proven(["c0", "c1", "new", "c2"], 30), beat(40))
    play.then(proven(["c0", "c1", "new", "c2"], 41))
    assert causes(play) == ["missed stream_down"] * 2
    assert causes(play, ["c2"]) == ["missed silent"]
    assert play.ledger.stalls == 0


def test_a_new_connection_that_brings_nothing_stands_still() -> None:
    """It is open all the time."""
    play = Play(up(), relist(1), proven(NAMES, 10), proven(NAMES, 40.1), quiet=True)
    assert causes(play) == ["missed stalled"] * len(NAMES)
    assert play.ledger.stalls == 1


@pytest.mark.parametrize(("after", "cause"), [(False, "stalled"), (True, "silent")])
def test_what_follows_an_announcement_of_the_same_container_could_be_heard(
    *, after: bool, cause: str
) -> None:
    """If that came over the new subscription; not if it came before."""
    own = created("c0", 11.1 if after else 7.9)
    play = Play(up(), relist(1), beat(0.5), relist(7), quiet=True)
    play.then(*((StreamUnproven(8), beat(11), own) if after else (own, StreamUnproven(8))))
    play.then(beat(11.2), proven(["c0"], 12), beat(19), proven(["c0"], 20))
    assert causes(play, ["c0"]) == [f"missed {cause}"]


def test_what_comes_before_an_announcement_of_the_same_container_may_not_have_been_heard() -> None:
    """Its exit came over the new subscription: its start may have been made for the old one."""
    play = Play(up(), relist(1), beat(0.5), created("c0", 6), relist(7), quiet=True)
    play.then(StreamUnproven(8), stopped("c0", 11), relist(12, c0=EXITED), beat(19))
    play.then(relist(20, c0=EXITED))
    assert "c0 ContainerStarted gap stalled" in play.judged


@pytest.mark.parametrize(
    ("unheard", "gap"),
    [
        ([StreamDown(5), StreamUp(6, wall_ns(6))], "gap stream_down"),
        ([StreamUnproven(5), beat(6)], "gap stalled"),
        ([Discarded(6)], "gap discarded"),
        ([], "gap"),
    ],
)
def test_a_creation_that_was_not_heard_is_explained_however_late_the_start_follows(
    unheard: list[Fact], gap: str
) -> None:
    """A list that shows it running proves that it was created since the list before."""
    play = Play(up(), beat(0.5), relist(1), relist(4), *unheard, quiet=True)
    play.then(*(proven(["c0"], at) for at in (7, 8)), started("c0", 9), proven(["c0"], 20))
    assert f"c0 ContainerChanged {gap}" in play.judged


def test_what_no_list_ever_showed_may_be_missing_because_of_a_stall() -> None:
    """Containers that only the stream knows disappear."""
    brief = [created(name, 9) for name in NAMES]
    play = Play(up(), beat(0.5), relist(1), *brief, relist(10), relist(20), quiet=True)
    assert not [line for line in play.judged if "ContainerRemoved" in line]
    play.then(relist(46))
    removals = [line for line in play.judged if "ContainerRemoved" in line]
    assert removals == [f"{name} ContainerRemoved missed stalled" for name in NAMES]


def test_a_renewed_subscription_is_trusted_from_its_first_event_on() -> None:
    """What is lost after it is lost."""
    play = Play(up(), beat(0.5), relist(1), StreamUnproven(8), beat(9), relist(9.5), quiet=True)
    play.then(proven(NAMES, 10), beat(19), proven(NAMES, 20))
    assert causes(play) == ["missed silent"] * len(NAMES)


@pytest.mark.parametrize(
    ("meanwhile", "gap"),
    [
        ([], "gap"),
        ([StreamDown(12), StreamUp(13, wall_ns(13))], "gap stream_down"),
        ([Discarded(12)], "gap discarded"),
        ([StreamDown(5), StreamUp(6, wall_ns(6))], "gap"),
    ],
)
def test_a_gap_is_told_from_one_that_the_watch_may_explain(meanwhile: list[Fact], gap: str) -> None:
    """An outage or discards since the relist before the later announcement."""
    play = Play(up(), relist(1), relist(10), *meanwhile, stopped("c1", 15), relist(30))
    assert f"c1 ContainerStarted {gap}" in play.judged


def test_an_outage_after_the_announcement_explains_no_gap() -> None:
    """A list had proven the start, and it was announced: the creation should have been, before."""
    play = Play(up(), relist(1), proven(["c0"], 3), started("c0", 4), StreamDown(4.5), up(4.6))
    play.then(proven(["c0"], 10))
    assert play.judged == ["c0 ContainerStarted confirmed", "c0 ContainerChanged gap"]


@pytest.mark.parametrize(("reached", "cause"), [(8, "stream_down"), (9, "silent")])
def test_an_outage_explains_what_was_not_due_before_it(reached: float, cause: str) -> None:
    """Of a container that vanished, and of an exit that a later list takes back for a moment."""
    play = Play(up(), beat(0.5), relist(1, c1=RUNNING), created("c2", 2), quiet=True)
    play.then(relist(3, c1=EXITED), relist(4, c1=RUNNING), beat(reached))
    play.then(StreamDown(9.5), up(9.6), beat(9.7), relist(10, c1=RUNNING))
    assert f"c1 ContainerDied missed {cause}" in play.judged
    assert f"c2 ContainerRemoved missed {cause}" in play.judged


def test_a_failed_start_that_is_gone_before_it_can_be_asked_about_is_undecided() -> None:
    """Removed right after the list that showed it EXITED: it may have owed no STOPPED."""
    play = Play(up(), relist(1), created("c1", 2), relist(3, c1=EXITED), deleted("c1", 3.1))
    play.then(relist(4), relist(20))
    assert "c1 ContainerDied undecided" in play.judged
    play.then(stopped("c1", 21))
    assert play.judged[-1] == "c1 ContainerDied undecided"


def test_a_lost_stopped_of_a_container_that_ran_is_a_loss() -> None:
    """Its STARTED was announced."""
    play = Play(up(), relist(1), created("c1", 2), started("c1", 2.5), relist(3, c1=EXITED))
    play.then(deleted("c1", 3.1), relist(4), relist(20))
    assert "c1 ContainerDied missed silent" in play.judged


@pytest.mark.parametrize("takes", [10.0, 600.0])
def test_a_removal_inside_that_of_its_sandbox_waits_as_long_as_that_lasts(takes: float) -> None:
    """CRI-O removes the containers of a stopped sandbox one after another, and says nothing."""
    sandbox, inside = NOTREADY, EXITED.inside("p1")
    facts: list[Fact] = [up(), relist(1, p1=sandbox, c1=inside), relist(2, p1=sandbox)]
    facts.append(relist(2 + takes, p1=sandbox))
    play = Play(*facts, profile=CRIO)
    assert play.judged == []
    play.then(relist(3 + takes))
    assert play.judged == ["c1 ContainerRemoved missed by_design"]


def test_a_sandbox_that_never_got_ready_brings_neither_gap_nor_late() -> None:
    """Containerd 1.7 announces its end when it is removed, and nothing before."""
    play = Play(up(), relist(1), relist(2, p1=NOTREADY), relist(20, p1=NOTREADY), profile=OLD)
    assert play.judged == ["p1 ContainerDied missed by_design"]
    ends = (of_sandbox(stopped("p1", 30)), of_sandbox(deleted("p1", 30.1)))
    play.then(*ends, relist(31), relist(50))
    assert play.judged[1:] == ["p1 ContainerRemoved confirmed"]
