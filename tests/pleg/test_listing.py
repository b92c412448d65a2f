"""What relists show that the ledger must not take at its word: states and removals that flicker."""

from dataclasses import replace

import pytest
from hypothesis import example, given

from exporter.pleg.events import Listed, Pod, Relist, Since
from exporter.pleg.facts import Fact
from exporter.pleg.findings import Cause, Finding, Verdict
from exporter.pleg.ledger import Ledger, finished
from exporter.pleg.profiles import Never
from tests.support.facts import (
    CONTAINERD_2,
    EXITED,
    GRACE,
    NOTREADY,
    RUNNING,
    UNKNOWN,
    Play,
    Shown,
    created,
    deleted,
    profile,
    relist,
    relists,
    started,
    stopped,
    up,
)
from tests.support.scenarios import garbage

# It names the sandbox that the lists leave out.
NAMED = started("c1", 2)._replace(sandbox_id="p1")
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
    """Name and pod stay known, also where the rest has changed; the first state stays the first."""
    pod, items = Pod("shop", "web"), relist(2, p1=replace(NOTREADY, state=UNKNOWN.state)).items
    lists = [
        items[0]._replace(name="web", pod=None),
        items[0]._replace(name="", pod=pod),
        items[0]._replace(name="", pod=None, sandbox_id="p2", state=NOTREADY.state),
    ]
    play = Play(up(), relist(1), profile=profile(Never.SANDBOX_FAILED))
    play.then(*(replace(relist(2 + at), items=(item,)) for at, item in enumerate(lists)))
    missed = [each for each in play.then(relist(20)) if each.verdict is Verdict.MISSED]
    assert [(each.name, each.pod, each.cause) for each in missed] == [("web", pod, Cause.SILENT)]


def test_a_relist_that_lacks_many_is_judged_in_small_steps() -> None:
    """Other tasks run in between: each is missed and judged by itself."""
    play = Play(up(), relist(1), *(created(f"c{n}", 2) for n in range(100)), relist(3))
    assert sum(1 for _ in play.ledger.relisting(relist(9), [])) >= 200


def found_in(log: list[Fact]) -> list[object]:
    """What a ledger makes of each fact; of a relist, difference, doubts and findings."""
    ledger = Ledger(CONTAINERD_2, GRACE)
    found: list[object] = []
    for fact in log:
        if isinstance(fact, Relist):
            findings: list[Finding] = []
            found += (finished(ledger.relisting(fact, findings)), findings)
        else:
            found.append(ledger.take(fact))
    return found


@given(log=garbage())
@example(log=[up(), relist(1, c1=RUNNING), NAMED, relist(3, c1=RUNNING)])
@example(log=[up(), relist(1, c1=RUNNING), relist(2), relist(3, c1=RUNNING)])
def test_an_item_that_is_the_same_object_again_means_what_an_equal_one_does(
    log: list[Fact],
) -> None:
    """It is passed over; whatever an event, a removal or another item of that id did meanwhile."""
    copies = [
        replace(fact, items=tuple(Listed(*item) for item in fact.items))
        if isinstance(fact, Relist)
        else fact
        for fact in log
    ]
    assert found_in(same_items(log)) == found_in(copies)


def same_items(log: list[Fact]) -> list[Fact]:
    """That log with equal items being the same."""
    known: dict[Listed, Listed] = {}
    return [
        replace(fact, items=tuple(known.setdefault(item, item) for item in fact.items))
        if isinstance(fact, Relist)
        else fact
        for fact in log
    ]


def since(items: tuple[Listed, ...], now: tuple[Listed, ...]) -> Since:
    """What has changed from one list to the next."""
    before, after = set(map(id, items)), set(map(id, now))
    return Since(
        items,
        tuple(item for item in items if id(item) not in after),
        tuple(item for item in now if id(item) not in before),
    )


@given(log=garbage())
@example(log=[up(), relist(1, c1=RUNNING), relist(2, c2=RUNNING), relist(9, c2=EXITED)])
@example(log=[up(), relist(1, c1=RUNNING), NAMED, relist(3, c1=RUNNING)])
@example(log=[up(), TWICE, replace(TWICE, items=TWICE.items[1:]), relist(9)])
def test_what_has_changed_says_as_much_as_the_list(log: list[Fact]) -> None:
    """Even if lists have two items of one id."""
    before: tuple[Listed, ...] = ()
    changes: list[Fact] = []
    for fact in same_items(log):
        if isinstance(fact, Relist):
            changes.append(replace(fact, since=since(before, fact.items)))
            before = fact.items
        else:
            changes.append(fact)
    assert found_in(changes) == found_in(log)


def test_changes_since_another_list_are_passed_over() -> None:
    """The one that they begin with was decoded, but never judged."""
    log: list[Fact] = [up(), relist(1, c1=RUNNING), relist(2, c1=EXITED, c2=RUNNING)]
    log += relists(20, 40)
    unjudged: list[Fact] = [
        replace(fact, since=Since(relist(0).items, (), ())) if isinstance(fact, Relist) else fact
        for fact in log
    ]
    assert found_in(unjudged) == found_in(log)
