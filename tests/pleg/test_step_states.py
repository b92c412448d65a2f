"""The states of one announcement: the table, and what no state allows."""

from itertools import product

import pytest

from exporter.model.findings import Verdict
from exporter.pleg.steps import MOVES, TRANSITIONS, Step, StepInput, StepState

JUDGED = set(StepState) - {StepState.OPEN, StepState.PROVEN, StepState.ANNOUNCED}


def test_the_table_is_complete() -> None:
    assert set(TRANSITIONS) == set(product(StepState, StepInput))


def test_every_state_can_be_reached() -> None:
    reached, todo = {Step().state}, [Step().state]
    while todo:
        state = todo.pop()
        new = {TRANSITIONS[state, what][0] for what in StepInput} - reached
        reached |= new
        todo += new
    assert reached == set(StepState)


def test_a_verdict_is_the_name_of_the_state_that_it_leads_to() -> None:
    named_after = {each.value: each for each in Verdict} | {"by design": Verdict.MISSED}
    for new, verdict in MOVES.values():
        named = named_after.get(new.value)
        assert verdict is named


@pytest.mark.parametrize("state", sorted(JUDGED, key=str))
def test_what_is_judged_is_judged_once(state: StepState) -> None:
    """Nothing but the late announcement of a miss moves a settled step."""
    moving = {what for what in StepInput if TRANSITIONS[state, what][0] is not state}
    assert moving == ({StepInput.ANNOUNCE} if state is StepState.MISSED else set())


def test_no_row_of_inputs_brings_two_verdicts_but_a_miss_that_came_late() -> None:
    for row in product(StepInput, repeat=5):
        step = Step()
        verdicts = [verdict for what in row if (verdict := step.apply(what)) is not None]
        assert len(verdicts) < 2 or verdicts in (
            [Verdict.MISSED, Verdict.LATE],
            # An announcement that comes after the gap is judged as any that no list shows.
            [Verdict.GAP, Verdict.UNSEEN],
        )
