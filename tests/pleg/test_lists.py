"""What relists show that the ledger must not take at its word: states and removals that flicker."""

from dataclasses import replace

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
    Given,
    Play,
    Whole,
    profile,
    relist,
    relists,
    up,
)
from tests.support.scenarios import garbage

TWICE = replace(relist(1), items=(*relist(1, c1=EXITED).items, *relist(1, c1=RUNNING).items))


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


@given(log=garbage())
@example(log=[TWICE, replace(TWICE, items=TWICE.items[1:]), relist(9)])
def test_differences_make_up_the_lists(log: list[Given]) -> None:
    """Even if lists have two items of one id, of which the first counts."""
    lists: dict[str, Listed] = {}
    differences = Differences()
    for line in log:
        fact = differences.fact(line)
        if isinstance(line, Whole) and isinstance(fact, Relist):
            assert {item.id for item in fact.changed if item == lists.get(item.id)} == set()
            lists |= {item.id: item for item in fact.changed}
            for gone in fact.gone:
                del lists[gone]
            assert lists == {item.id: item for item in reversed(line.items)}
            assert fact.listed == len(lists)


def test_differences_that_contradict_each_other_do_no_harm() -> None:
    """A file may say anything: what is gone was never there, or is there at once."""
    (item,) = relist(0, c1=RUNNING).items
    play = Play(up(), relist(1), Relist(2, 2, 1, (item, item), ("c1", "c2")))
    play.then(Relist(3, 3, 0, (), ("c1", "c1")), *relists(20, 40))
    assert play.ledger.unresolved == 0
