"""The core's tables: generic PLEG's, and the states of one announcement."""

from itertools import product

import pytest

from exporter.model.findings import Verdict
from exporter.pleg import relist, steps
from exporter.pleg.relist import PlegState
from exporter.pleg.steps import Step, StepInput, StepState

JUDGED = set(StepState) - {StepState.OPEN, StepState.PROVEN, StepState.ANNOUNCED}


def test_the_tables_are_complete() -> None:
    assert set(relist.TRANSITIONS) == set(product(PlegState, PlegState))
    assert set(steps.TRANSITIONS) == set(product(StepState, StepInput))


@pytest.mark.parametrize("state", sorted(JUDGED, key=str))
def test_what_is_judged_is_judged_once(state: StepState) -> None:
    """Nothing but the late announcement of a miss moves a settled step."""
    moving = {what for what in StepInput if steps.TRANSITIONS[state, what][0] is not state}
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
