"""What listeners of the ledger get, in which order, and that a replay finds the same."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.pleg.chronicle import Chronicle
from exporter.pleg.events import Inquiry, Pod, Relist
from exporter.pleg.facts import (
    Discarded,
    Fact,
    Inquired,
    ProfileChosen,
    Relisted,
    StreamAsked,
    StreamDown,
    StreamRefused,
    StreamUp,
    learnt,
)
from exporter.pleg.profiles import profile_of
from tests.support.facts import CREATED, EXITED, RUNNING, created, relist, started, stopped, wall_ns
from tests.support.scenarios import any_logs, garbage
from tests.support.searching import examples
from tests.support.tape import Tape, again, fresh


def chronicled(*facts: Fact) -> tuple[Chronicle, Tape]:
    """A chronicle of these facts, and what it told."""
    chronicle, tape = Chronicle(fresh()), Tape()
    chronicle.listen(tape)
    for fact in facts:
        chronicle.take(fact)
    return chronicle, tape


SMALL: list[Fact] = [
    ProfileChosen(0.0, "containerd", "2.1.9"),
    StreamAsked(0.1, 7),
    StreamUp(0.2, 7),
    created("c1", 1.0),
    Inquired(2.0, "c1", Inquiry.STARTED),
    StreamDown(3.0),
    StreamRefused(4.0),
]


def test_every_fact_is_told_as_it_was_taken() -> None:
    """One by one, in order, at once."""
    chronicle, tape = chronicled()
    for number, fact in enumerate(SMALL, start=1):
        chronicle.take(fact)
        assert tape.facts == SMALL[:number]


def test_a_start_is_unknown_until_somebody_tells() -> None:
    """A container that the ledger does not know is no question."""
    chronicle, _ = chronicled(StreamUp(0.2, 7), relist(1), created("c1", 2.0))
    assert chronicle.is_start_unknown("c1")
    assert not chronicle.is_start_unknown("c2")
    chronicle.take(started("c1", 3.0))
    assert not chronicle.is_start_unknown("c1")


def test_what_is_listed_or_named_is_known() -> None:
    """Once each; what is removed and judged is not live any more."""
    chronicle, _ = chronicled(created("c1", 0.5), relist(1.0, c1=RUNNING, c2=RUNNING))
    assert [chronicle.knows(each) for each in ("c1", "c2", "c3")] == [True, True, False]
    assert chronicle.live == 2
    assert [chronicle.is_start_unknown(each) for each in ("c1", "c3")] == [False, False]
    assert chronicle.stalls == 0
    chronicle.take(relist(2.0, c1=RUNNING))
    chronicle.take(relist(100.0, c1=RUNNING))
    assert chronicle.live == 1


def test_what_it_answers_is_what_the_ledger_answers() -> None:
    """A chronicle replaces its ledger for the callers."""
    chronicle, tape = chronicled(*SMALL[:3], relist(0.5), relist(1, c1=RUNNING))
    assert chronicle.profile == profile_of("containerd", "2.1.9")
    assert chronicle.unresolved == 1
    event = started("c1", 1.5)
    taken = chronicle.take(event)
    assert [f.verdict.value for f in taken.findings] == ["confirmed"]
    assert not taken.copy
    assert chronicle.take(event._replace(stream=1)).copy
    assert [f.verdict.value for f in tape.findings] == ["witnessed", "confirmed"]
    assert chronicle.take(relist(2, c2=EXITED, c1=RUNNING)).doubts == ("c2",)


def test_a_relist_is_told_as_the_difference_it_made() -> None:
    """New, changed, moved and gone items; unchanged ones are not repeated."""
    before = relist(1, stays=RUNNING, dies=RUNNING, goes=EXITED, moves=RUNNING)
    now = relist(2, new=CREATED, stays=RUNNING, dies=EXITED, moves=RUNNING.inside("p1"))
    _, tape = chronicled(before, now)
    first, second = tape.facts
    assert isinstance(first, Relisted)
    assert first.changed == before.items
    assert first.gone == ()
    assert isinstance(second, Relisted)
    assert [item.id for item in second.changed] == ["new", "dies", "moves"]
    assert (second.gone, second.listed) == (("goes",), 4)
    assert (second.requested, second.requested_wall_ns) == (2, wall_ns(2))
    assert learnt(second) == 2


def test_a_pod_or_a_name_that_a_list_adds_is_a_difference() -> None:
    """The identity may be learnt later; an item that is repeated is no change."""
    (item,) = relist(1, c1=RUNNING).items
    named = item._replace(name="app")
    placed = named._replace(pod=Pod("shop", "cart", "u-1"))
    lists = [(item,), (named,), (placed,), (placed,), (item,)]
    facts = [replace(relist(at), items=items) for at, items in enumerate(lists, start=1)]
    _, tape = chronicled(*facts)
    told = [fact.changed for fact in tape.facts if isinstance(fact, Relisted)]
    # A list that leaves a name out takes nothing back.
    assert told == [(item,), (named,), (placed,), (), ()]


def test_discards_in_a_row_are_one_fact() -> None:
    """Otherwise they would push everything else out of the recorder."""
    chronicle, tape = chronicled()
    for at in (1.0, 2.0, 3.0):
        chronicle.take(Discarded(at))
    assert tape.facts == []
    chronicle.take(created("c1", 4.0))
    chronicle.take(Discarded(5.0))
    chronicle.tell_drops()
    chronicle.tell_drops()
    assert tape.facts == [Discarded(1.0, 3.0, 3), created("c1", 4.0), Discarded(5.0, 5.0, 1)]


def test_of_discards_in_a_row_the_first_may_excuse_what_the_last_does_not() -> None:
    """One comes within a grace and one after it: the cause is the same again."""
    chronicle, tape = chronicled(*SMALL[:3], relist(1), relist(2, c1=RUNNING))
    chronicle.take(Discarded(3.0))
    chronicle.take(Discarded(9.0))
    chronicle.take(relist(20, c1=RUNNING))
    assert [f.cause.value for f in tape.findings if f.cause] == ["discarded"]
    assert again(tape) == tape.findings


ASIDES: list[Callable[[Chronicle], object]] = [
    lambda chronicle: chronicle.take(Inquired(20.1, "c1", Inquiry.NEVER_STARTED)),
    lambda chronicle: chronicle.take(StreamDown(20.1)),
    lambda chronicle: chronicle.take(StreamRefused(20.1)),
    lambda chronicle: chronicle.take(Discarded(20.1)),
    lambda chronicle: chronicle.take(ProfileChosen(20.1, "cri-o", "1.36.3")),
]
WATCHED = [*SMALL[:3], relist(1), relist(2, c1=EXITED, c2=RUNNING, c3=RUNNING)]


@pytest.mark.parametrize("aside", ASIDES)
def test_what_comes_while_a_relist_is_judged_is_taken_after_it(
    aside: Callable[[Chronicle], object],
) -> None:
    """At whichever step it comes, findings and facts are the same."""
    outcomes = []
    for at in range(6):
        chronicle, tape = chronicled(*WATCHED)
        for number, _ in enumerate(chronicle.relisting(relist(20, c1=EXITED, c3=EXITED))):
            if number == at:
                aside(chronicle)
                aside(chronicle)
        chronicle.take(relist(40, c1=EXITED))
        outcomes.append((tape.facts, tape.findings))
        assert again(tape) == tape.findings
    assert all(outcome == outcomes[0] for outcome in outcomes)
    judged, *meanwhile, last = outcomes[0][0][len(WATCHED) :]
    assert isinstance(judged, Relisted)
    assert isinstance(last, Relisted)
    assert meanwhile
    assert not any(isinstance(fact, Relisted) for fact in meanwhile)


def test_a_relist_that_is_given_up_is_not_told() -> None:
    """What waited for it is taken all the same."""
    chronicle, tape = chronicled(*WATCHED)
    for _ in chronicle.relisting(relist(20, c1=EXITED)):
        chronicle.take(StreamDown(20.5))
        break
    chronicle.take(stopped("c2", 21.0))
    assert tape.facts[-2:] == [StreamDown(20.5), stopped("c2", 21.0)]


def test_a_relist_that_is_given_up_once_it_is_told_has_all_its_findings() -> None:
    """At every step from its telling on: a recording that ends there agrees with its replay."""
    told = 0
    # So many that their findings are not told at once.
    many = [f"m{number}" for number in range(20)]
    for at in range(110):
        chronicle, tape = chronicled(*WATCHED, relist(3, **dict.fromkeys(many, RUNNING)))
        before = len(tape.facts)
        judged = relist(20, **dict.fromkeys(many, EXITED), c1=EXITED, c3=EXITED)
        for number, _ in enumerate(chronicle.relisting(judged)):
            if number == at:
                break
        if len(tape.facts) > before:
            told += 1
            assert again(tape) == tape.findings
    assert told > 1


@examples(1)
@given(facts=any_logs())
def test_another_ledger_that_is_told_the_same_finds_the_same(facts: list[Fact]) -> None:
    """Every finding, in its order, with all that it says."""
    _, tape = chronicled(ProfileChosen(0.0, "containerd", "2.1.9"), *facts)
    assert again(tape) == tape.findings


@examples(1)
@given(facts=garbage(), at=st.integers(0, 8))
def test_even_of_garbage_and_whatever_comes_between(facts: list[Fact], at: int) -> None:
    """Ids that are listed twice, times that run backwards, and things that happen meanwhile."""
    chronicle, tape = chronicled()
    for fact in facts:
        if isinstance(fact, Relist):
            for number, _ in enumerate(chronicle.relisting(fact)):
                if number == at:
                    chronicle.take(Discarded(7.0))
                    chronicle.take(Inquired(8.0, "c1", Inquiry.DELETED_BELOW))
        else:
            chronicle.take(fact)
    chronicle.tell_drops()
    assert again(tape) == tape.findings
