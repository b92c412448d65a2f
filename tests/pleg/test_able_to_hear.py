"""Verdicts that do not cry wolf: a stream that stands still, and what may not have been owed."""

import pytest

from exporter.pleg.events import Announcement, Relist
from exporter.pleg.facts import Discarded, Fact, StreamDown, StreamUnproven, StreamUp
from exporter.pleg.profiles import profile_of
from tests.support.facts import (
    CRIO,
    EPOCH_NS,
    EXITED,
    NOTREADY,
    RUNNING,
    Play,
    created,
    deleted,
    of_sandbox,
    relist,
    started,
    stopped,
    up,
    wall_ns,
)

FEW = [f"c{number}" for number in range(2)]
MANY = [f"c{number}" for number in range(4)]
OLD = profile_of("containerd", "1.7.24")
EARLY = created("early", 0.9)._replace(received_wall_ns=wall_ns(0.9))


def proven(names: list[str], at: float) -> Relist:
    """A relist that shows them running."""
    return relist(at, **dict.fromkeys(names, RUNNING))


def heard(object_id: str, at: float, made: float, stream: int = 0) -> Announcement:
    """STARTED, created at `made`, with the time at which it came."""
    event = started(object_id, at, made=made, stream=stream)
    return event._replace(received_wall_ns=wall_ns(at))


def watched(names: list[str], *facts: Fact) -> Play:
    """Since the baseline a first event came; then these run, and no event comes but in `facts`."""
    return Play(up(), relist(1), EARLY, proven(["early", *names], 10), *facts)


def causes(play: Play, names: list[str]) -> list[str]:
    """How their starts were judged so far, in order."""
    lines = [line for line in play.judged if line.split()[0] in names]
    return [line.split(" ", 2)[2] for line in lines if "ContainerStarted" in line]


def test_few_misses_and_nothing_after_them_are_losses() -> None:
    """They may be all that happened: nothing else was announced because nothing else was."""
    play = watched(FEW, proven(["early", *FEW], 20))
    assert causes(play, FEW) == ["missed silent"] * len(FEW)


@pytest.mark.parametrize("later", [16.0, 30.0, 44.0])
def test_many_wait_for_what_comes_next(later: float) -> None:
    """Neither lost nor excused, however many relists follow within half a minute."""
    play = watched(MANY, proven(["early", *MANY], later))
    assert causes(play, MANY) == []
    assert play.ledger.unresolved == len(MANY) + 1
    assert play.ledger.stalls == 0


def test_a_fresh_event_after_many_misses_shows_that_the_others_were_lost() -> None:
    """The stream works; it skipped them."""
    play = watched(
        MANY,
        proven(["early", *MANY], 20),
        heard("new", 21, made=21),
        proven(["early", *MANY, "new"], 25),
    )
    assert causes(play, MANY) == ["missed silent"] * len(MANY)
    assert play.ledger.stalls == 0


def test_an_old_event_after_many_misses_shows_that_the_stream_stood_still() -> None:
    """What comes is confirmed, what does not come is `stream_down`, and it is one stall."""
    play = watched(
        MANY,
        proven(["early", *MANY], 20),
        heard("c0", 30, made=9),
        heard("c1", 30.01, made=9.5),
        proven(["early", *MANY], 40),
    )
    assert causes(play, ["c0", "c1"]) == ["confirmed", "confirmed"]
    assert causes(play, ["c2", "c3"]) == ["missed stream_down"] * 2
    assert play.ledger.stalls == 1


def test_what_happened_before_a_stall_was_over_is_not_the_runtimes_loss() -> None:
    """Also what only a later relist proves; what follows is judged as ever."""
    play = watched(
        MANY,
        proven(["early", *MANY], 20),
        heard("c0", 30, made=9),
        proven(["early", *MANY, "late"], 32),
        proven(["early", *MANY, "late", "after"], 60),
        heard("c0", 66, made=66, stream=1),
        proven(["early", *MANY, "late", "after"], 70),
    )
    assert causes(play, ["late"]) == ["missed stream_down"]
    assert causes(play, ["after"]) == ["missed silent"]


def test_a_stream_that_says_nothing_for_long_stands_still() -> None:
    """It counts as one stall, and nothing is called silent."""
    play = watched(MANY, proven(["early", *MANY], 46), proven(["early", *MANY], 90))
    assert causes(play, MANY) == ["missed stream_down"] * len(MANY)
    assert play.ledger.stalls == 1
    play.then(heard("c0", 100, made=9))
    assert causes(play, ["c0"]) == ["missed stream_down", "late"]


@pytest.mark.parametrize("names", [FEW, MANY])
def test_a_renewed_subscription_may_have_begun_after_what_it_did_not_bring(
    names: list[str],
) -> None:
    """Its first event is younger, and nothing shows that the runtime served it before."""
    play = Play(up(), relist(1), EARLY, StreamUnproven(8))
    play.then(
        proven(["early", *names], 10),
        proven(["early", *names], 20),
        heard("new", 21, made=21, stream=1),
        proven(["early", "new", *names], 30),
    )
    assert causes(play, names) == ["missed stream_down"] * len(names)
    assert play.ledger.stalls == 1


def test_a_new_connection_may_have_begun_after_what_it_did_not_bring() -> None:
    """Its first event comes late, is fresh, and many others are missing."""
    play = Play(up(), relist(1), proven(MANY, 10), proven(MANY, 20))
    play.then(heard("new", 21, made=21), proven(["new", *MANY], 30))
    assert causes(play, MANY) == ["missed stream_down"] * len(MANY)
    assert play.ledger.stalls == 1


def test_what_the_next_relist_proves_may_have_happened_before_the_first_event() -> None:
    """Nothing was missing yet, so it is no stall; but nothing shows that we could hear it."""
    play = Play(up(), relist(1), EARLY, relist(7, early=RUNNING), StreamUnproven(8))
    play.then(heard("early", 11, made=11, stream=1))
    play.then(proven(["early", "c0"], 12), proven(["early", "c0"], 20))
    assert causes(play, ["c0"]) == ["missed stream_down"]
    assert play.ledger.stalls == 0


@pytest.mark.parametrize(("after", "cause"), [(False, "stream_down"), (True, "silent")])
def test_what_follows_an_announcement_of_the_same_container_could_be_heard(
    *, after: bool, cause: str
) -> None:
    """If that came over the new subscription, after its first event; not if it came before."""
    first = heard("early", 11, made=11, stream=1)
    own = created("c0", 11.1 if after else 7.9)
    play = Play(up(), relist(1), EARLY, relist(7, early=RUNNING))
    play.then(*((StreamUnproven(8), first, own) if after else (own, StreamUnproven(8), first)))
    play.then(proven(["early", "c0"], 12), proven(["early", "c0"], 20))
    assert causes(play, ["c0"]) == [f"missed {cause}"]


def test_a_repeated_announcement_shows_that_what_follows_it_could_be_heard() -> None:
    """It came over the new subscription, though the first one had come over the old one."""
    again = created("c0", 11.2)._replace(stream=1)
    play = Play(up(), relist(1), EARLY, created("c0", 7.9), StreamUnproven(8))
    play.then(heard("early", 11, made=11, stream=1), again)
    play.then(proven(["early", "c0"], 12), proven(["early", "c0"], 20))
    assert causes(play, ["c0"]) == ["missed silent"]


@pytest.mark.parametrize(
    ("unheard", "gap"),
    [
        ([StreamDown(5), StreamUp(6, wall_ns(6))], "gap stream_down"),
        ([StreamUnproven(5), heard("early", 6, made=6, stream=1)], "gap stream_down"),
        ([Discarded(6)], "gap discarded"),
        ([], "gap"),
    ],
)
def test_a_creation_that_was_not_heard_is_explained_however_late_the_start_follows(
    unheard: list[Fact], gap: str
) -> None:
    """A list that shows it running proves that it was created since the list before."""
    play = Play(up(), relist(1), EARLY, relist(4, early=RUNNING), *unheard)
    play.then(*(proven(["early", "c0"], at) for at in (7, 8)), started("c0", 9))
    play.then(proven(["early", "c0"], 20))
    assert f"c0 ContainerChanged {gap}" in play.judged


def test_a_few_misses_after_a_lease_ran_out_wait_for_what_comes_next() -> None:
    """If nothing comes for half a minute, the stream stands still."""
    play = Play(up(), relist(1), EARLY, relist(7, early=RUNNING), StreamUnproven(8))
    play.then(*(proven(["early", *FEW], at) for at in (10, 20, 41)))
    assert causes(play, FEW) == []
    play.then(proven(["early", *FEW], 43))
    assert causes(play, FEW) == ["missed stream_down"] * len(FEW)
    assert play.ledger.stalls == 1


def test_an_old_event_after_a_lease_ran_out_shows_that_the_stream_stood_still() -> None:
    """Though nothing was missing yet: what was skipped before it is explained, too."""
    play = Play(up(), relist(1), EARLY, relist(7, early=RUNNING), StreamUnproven(8))
    play.then(stopped("c0", 30, made=12)._replace(stream=1, received_wall_ns=wall_ns(30)))
    play.then(relist(31, early=RUNNING), relist(50, early=RUNNING))
    assert "c0 ContainerStarted gap stream_down" in play.judged
    assert play.ledger.stalls == 1


def test_a_few_misses_are_judged_together() -> None:
    """As long as more go missing, it may be the beginning of a stall."""
    play = watched(["c0"], *(proven(["early", "c0", "c1"], at) for at in (14, 18)))
    assert causes(play, ["c0", "c1"]) == []
    play.then(proven(["early", "c0", "c1"], 20))
    assert causes(play, ["c0", "c1"]) == ["missed silent"] * 2


def test_a_stall_explains_why_a_removal_that_was_just_proven_is_missing() -> None:
    """Of a container that no list ever showed, within the grace period."""
    play = Play(up(), relist(1), EARLY, created("brief", 9))
    play.then(*(proven(["early", *MANY], at) for at in (10, 12)), heard("c0", 14.5, made=8.5))
    play.then(proven(["early", *MANY], 20))
    assert "brief ContainerRemoved missed stream_down" in play.judged


def test_what_no_list_ever_showed_may_be_missing_because_of_a_stall() -> None:
    """Four containers that only the stream knows disappear at once."""
    brief = [created(name, 9) for name in MANY]
    play = Play(up(), relist(1), EARLY, *brief, proven(["early"], 10))
    play.then(proven(["early"], 20))
    removals = [line for line in play.judged if "ContainerRemoved" in line]
    assert removals == []
    play.then(proven(["early"], 46))
    removals = [line for line in play.judged if "ContainerRemoved" in line]
    assert removals == [f"{name} ContainerRemoved missed stream_down" for name in MANY]


def test_a_renewed_subscription_is_trusted_from_its_first_event_on() -> None:
    """What is lost after it is lost."""
    play = Play(up(), relist(1), EARLY, StreamUnproven(8), heard("early", 9, made=9, stream=1))
    play.then(relist(9.5, early=RUNNING), proven(["early", *MANY], 10))
    play.then(heard("new", 19, made=19, stream=1), proven(["early", "new", *MANY], 20))
    assert causes(play, MANY) == ["missed silent"] * len(MANY)


def test_an_event_without_a_time_is_as_old_as_its_arrival() -> None:
    """Else a runtime that sends none would always stand still."""
    timeless = started("new", 21)._replace(created_at_ns=0, received_wall_ns=EPOCH_NS)
    play = watched(
        MANY, proven(["early", *MANY], 20), timeless, proven(["early", "new", *MANY], 30)
    )
    assert causes(play, MANY) == ["missed silent"] * len(MANY)


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
