"""What relists show that the ledger must not take at its word: states and removals that flicker."""

from dataclasses import replace

import pytest
from hypothesis import example, given

from exporter.model.events import Listed, Pod
from exporter.model.facts import Relist
from exporter.model.findings import Cause, Verdict
from tests.support.facts import (
    EXITED,
    NOTREADY,
    RUNNING,
    UNKNOWN,
    Differences,
    Play,
    Shown,
    Told,
    Whole,
    deleted,
    profile,
    relist,
    relists,
    started,
    stopped,
    up,
)
from tests.support.scenarios import garbage

TWICE = replace(relist(1), items=(*relist(1, c1=EXITED).items, *relist(1, c1=RUNNING).items))


@pytest.mark.parametrize(
    "flicker",
    [
        (RUNNING, UNKNOWN, RUNNING),
        (UNKNOWN, RUNNING),
        (UNKNOWN, EXITED),
        (RUNNING, None, RUNNING),
        (EXITED, None, EXITED),
        (EXITED, UNKNOWN, EXITED),
    ],
)
def test_steps_that_the_baseline_showed_are_not_owed_when_the_lists_flicker(
    flicker: tuple[Shown | None, ...],
) -> None:
    """The start, or the exit, was before the baseline."""
    play = Play(up())
    for at, state in enumerate(flicker, 1):
        play.then(relist(at, **({"c1": state} if state else {})))
    play.then(*relists(20, 40, c1=flicker[-1] or RUNNING))
    assert play.judged == []


def test_a_removal_that_the_next_list_disproves_was_none() -> None:
    """The proofs are counted as witnessed, and withdrawn."""
    play = Play(up(), relist(1, c1=RUNNING), relist(2))
    assert play.ledger.unresolved == 2
    play.then(started("c1", 2.5), *relists(3, 20, c1=RUNNING))
    assert play.judged == []
    assert play.ledger.unresolved == 0


def test_even_the_relist_that_would_settle_it_disproves_a_removal() -> None:
    """What a list shows is stronger than an event that did not come."""
    play = Play(up(), relist(1, c1=EXITED), relist(2), *relists(20, 40, c1=EXITED))
    assert not any("ContainerRemoved" in line for line in play.judged)


def test_an_announced_removal_is_not_undone() -> None:
    """After a DELETED, a list that shows the container again is stale."""
    play = Play(up(), relist(1, c1=RUNNING), relist(2), deleted("c1", 3), relist(4, c1=EXITED))
    play.then(*relists(5, 20))
    assert play.judged == ["c1 ContainerRemoved confirmed", "c1 ContainerDied missed silent"]


def test_a_removal_after_one_that_was_undone_has_a_grace_of_its_own() -> None:
    """The grace begins with the second proof."""
    play = Play(up(), relist(1), stopped("c1", 1.5), relist(2, c1=EXITED))
    play.then(relist(3), relist(4, c1=EXITED), relist(9), deleted("c1", 13), *relists(13.5, 14.5))
    assert play.judged[-1] == "c1 ContainerRemoved confirmed"


def test_an_exit_that_a_list_showed_stays_proven_when_a_removal_is_undone() -> None:
    """Its grace began at that list."""
    play = Play(up(), relist(1, c1=RUNNING), relist(3, c1=EXITED), relist(5))
    play.then(relist(6, c1=EXITED), relist(8.5, c1=EXITED))
    assert play.judged == ["c1 ContainerDied missed silent"]


def test_a_list_that_knows_less_takes_nothing_back() -> None:
    """Name and pod stay known, also where the rest has changed."""
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


@given(log=garbage())
@example(log=[TWICE, replace(TWICE, items=TWICE.items[1:]), relist(9)])
def test_differences_make_up_the_lists(log: list[Told]) -> None:
    """Even if lists have two items of one id, of which the first counts."""
    lists: dict[str, Listed] = {}
    differences = Differences()
    for told in log:
        fact = differences.fact(told)
        if isinstance(told, Whole) and isinstance(fact, Relist):
            assert {item.id for item in fact.changed if item == lists.get(item.id)} == set()
            lists |= {item.id: item for item in fact.changed}
            for gone in fact.gone:
                del lists[gone]
            assert lists == {item.id: item for item in reversed(told.items)}
            assert fact.listed == len(lists)


def test_differences_that_contradict_each_other_do_no_harm() -> None:
    """A file may say anything: what is gone was never there, or is there at once."""
    (item,) = relist(0, c1=RUNNING).items
    play = Play(up(), relist(1), Relist(2, 2, 2, 1, (item, item), ("c1", "c2")))
    play.then(Relist(3, 3, 3, 0, (), ("c1", "c1")), *relists(20, 40))
    assert play.ledger.unresolved == 0
