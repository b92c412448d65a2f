"""What listeners of the ledger get, in which order, and that a replay finds the same."""

import pytest
from hypothesis import given

from exporter.model import facts
from exporter.model.events import Inquiry
from exporter.node.chronicle import Chronicle
from tests.support.facts import EXITED, RUNNING, Given, created, facts_of, garbage, relist, started
from tests.support.fixtures import examples
from tests.support.tape import Tape, again, fresh

pytestmark = pytest.mark.quick


def chronicled(*log: Given) -> tuple[Chronicle, Tape]:
    chronicle, tape = Chronicle(fresh()), Tape()
    chronicle.listen(tape.hear)
    for fact in facts_of(log):
        chronicle.record(fact)
    return chronicle, tape


SMALL: list[facts.Fact] = [
    facts.ProfileChosen(0.0, "containerd", "2.1.9"),
    facts.StreamAsked(0.1),
    facts.StreamUp(0.2, 0.1),
    created("c1", 1.0),
    facts.Inquired(2.0, "c1", Inquiry.STARTED),
    facts.StreamDown(3.0),
    facts.StreamRefused(4.0),
]


def test_every_fact_reaches_the_listeners_as_it_was_taken() -> None:
    chronicle, tape = chronicled()
    for number, fact in enumerate(SMALL, start=1):
        chronicle.record(fact)
        assert tape.facts == SMALL[:number]


def test_what_it_answers_is_what_the_ledger_answers() -> None:
    chronicle, tape = chronicled(*SMALL[:3], relist(0.5), relist(1, c1=RUNNING))
    event = started("c1", 1.5)
    taken = chronicle.record(event)
    assert [f.verdict.value for f in taken.findings] == ["confirmed"]
    assert not taken.copy
    assert chronicle.record(event._replace(stream=1)).copy
    assert [f.verdict.value for f in tape.findings] == ["witnessed", "confirmed"]
    new = relist(2, c2=EXITED).items
    assert chronicle.record(facts.Relist(2, 2, 2, new, ())).doubts == ("c2",)


def test_discards_in_a_row_are_one_fact() -> None:
    """Otherwise they would push everything else out of the recorder."""
    chronicle, tape = chronicled()
    for at in (1.0, 2.0, 3.0):
        chronicle.record(facts.Discarded(at))
    assert tape.facts == []
    chronicle.record(created("c1", 4.0))
    chronicle.record(facts.Discarded(5.0))
    chronicle.tell_drops()
    chronicle.tell_drops()
    assert tape.facts == [
        facts.Discarded(1.0, 3.0, 3),
        created("c1", 4.0),
        facts.Discarded(5.0, 5.0, 1),
    ]


def test_of_discards_in_a_row_the_first_may_excuse_what_the_last_does_not() -> None:
    drops = (facts.Discarded(3.0), facts.Discarded(9.0))
    running = relist(2, c1=RUNNING), *drops, relist(20, c1=RUNNING)
    _, tape = chronicled(*SMALL[:3], relist(1), *running)
    assert [f.cause.value for f in tape.findings if f.cause] == ["discarded"]
    assert again(tape) == tape.findings


@examples(1)
@given(log=garbage())
def test_a_replay_of_garbage_comes_to_the_same_findings(log: list[Given]) -> None:
    chronicle, tape = chronicled(*log)
    chronicle.tell_drops()
    assert again(tape) == tape.findings
