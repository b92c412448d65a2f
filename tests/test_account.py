"""The account of a node: what is lost, and the state that follows, each by hand."""

from collections import Counter
from dataclasses import replace

import pytest

from alerts import values
from exporter import account as judged
from exporter.account import Account, NodeState, Present, is_beyond, states_of
from exporter.model.events import Lifecycle
from exporter.model.findings import Cause, Verdict

pytestmark = pytest.mark.quick

DIED, STARTED = Lifecycle.DIED, Lifecycle.STARTED
STREAMING = Present(answers=True, streaming=True, wanted=True, exclusive=False)
DOWN = Present(answers=True, streaming=False, wanted=True, exclusive=False)
REFUSED = Present(answers=True, streaming=False, wanted=False, exclusive=True)
ALWAYS = Present(answers=True, streaming=True, wanted=True, exclusive=True)


def account(  # noqa: PLR0913 - a story has many numbers
    *,
    exits: int = 40,
    others: int = 120,
    exits_lost: int = 0,
    others_lost: int = 0,
    cause: Cause = Cause.SILENT,
    late: int = 0,
    gaps: int = 0,
    received: int = 100,
    ends: int = 0,
    timed: int = 40,
    slow: int = 0,
) -> Account:
    """Lost by that cause; of the exits that were lost, so many came `late`."""
    found = Counter(
        {
            (Verdict.WITNESSED, DIED, None): exits,
            (Verdict.WITNESSED, STARTED, None): others,
            (Verdict.MISSED, DIED, cause): exits_lost,
            (Verdict.MISSED, STARTED, cause): others_lost,
            (Verdict.LATE, DIED, cause): late,
            (Verdict.GAP, STARTED, None): gaps,
        }
    )
    return Account(found, received, ends, timed, slow)


@pytest.mark.parametrize(
    ("story", "present", "state"),
    [
        (account(), STREAMING, NodeState.COMPLETE),
        (account(exits=0, others=0), STREAMING, NodeState.IDLE),
        (
            account(),
            Present(answers=None, streaming=False, wanted=True, exclusive=False),
            "STARTING",
        ),
        (
            account(),
            Present(answers=False, streaming=True, wanted=True, exclusive=False),
            "NOT_ANSWERING",
        ),
        # One exit of forty is beyond one in a thousand; one of a thousand is not.
        (account(exits_lost=1), STREAMING, NodeState.LOSING),
        (account(exits=1000, exits_lost=1), STREAMING, NodeState.FEW_LOST),
        (account(exits_lost=1, late=1), STREAMING, NodeState.COMPLETE),
        # A few other events are no reason to act; many are.
        (account(others_lost=3), STREAMING, NodeState.FEW_LOST),
        (account(others_lost=4), STREAMING, NodeState.LOSING),
        (account(others=5000, others_lost=10), STREAMING, NodeState.FEW_LOST),
        # Neither kind makes up the numbers of the other.
        (account(exits=2000, exits_lost=4, others_lost=3), STREAMING, NodeState.FEW_LOST),
        (account(gaps=2), STREAMING, NodeState.FEW_LOST),
        # What is not delivered is as bad, and silence is worse than any number.
        (account(exits_lost=1, cause=Cause.STALLED), STREAMING, NodeState.STREAM_SILENT),
        (account(others_lost=3, cause=Cause.STALLED), STREAMING, NodeState.FEW_LOST),
        (
            account(exits=0, others=2, others_lost=1, cause=Cause.STALLED, received=0),
            STREAMING,
            NodeState.STREAM_SILENT,
        ),
        (account(exits_lost=1, late=1, cause=Cause.STALLED), STREAMING, NodeState.COMPLETE),
        (account(exits_lost=9, cause=Cause.STREAM_DOWN), STREAMING, NodeState.INTERRUPTED),
        (account(exits_lost=9, cause=Cause.DISCARDED), STREAMING, NodeState.INTERRUPTED),
        (account(), DOWN, NodeState.INTERRUPTED),
        (account(ends=3), STREAMING, NodeState.COMPLETE),
        (account(ends=4), STREAMING, NodeState.FLAPPING),
        (account(slow=20), STREAMING, NodeState.COMPLETE),
        (account(slow=21), STREAMING, NodeState.EXITS_LATE),
        (account(timed=9, slow=9), STREAMING, NodeState.COMPLETE),
        (account(timed=10, slow=6), STREAMING, NodeState.EXITS_LATE),
        (account(), REFUSED, NodeState.NOT_WATCHED),
        (account(exits_lost=9, cause=Cause.SHARED), ALWAYS, NodeState.NOT_WATCHED),
    ],
)
def test_each_story_has_its_state(story: Account, present: Present, state: NodeState | str) -> None:
    """The first of the states that hold."""
    wanted = NodeState[state] if isinstance(state, str) else state
    assert states_of(story, present)[0] is wanted


@pytest.mark.parametrize(
    ("story", "present", "state"),
    [
        (account(exits=0, others=0), replace(DOWN, answers=None), NodeState.STARTING),
        (account(exits=0, others=0), replace(STREAMING, answers=False), NodeState.NOT_ANSWERING),
        (account(exits_lost=1, cause=Cause.STALLED), STREAMING, NodeState.STREAM_SILENT),
        (account(exits_lost=1), STREAMING, NodeState.LOSING),
        (account(), replace(STREAMING, ghosts=1), NodeState.MISLISTED),
        (account(), replace(STREAMING, strays=1), NodeState.MISLISTED),
        # Late by a miss of an earlier window: it makes up for no other loss.
        (account(late=1, others_lost=1), STREAMING, NodeState.FEW_LOST),
    ],
)
def test_what_one_state_says_no_other_repeats(
    story: Account, present: Present, state: NodeState
) -> None:
    """Nor is a runtime that does not answer called complete."""
    expected = (NodeState.INTERRUPTED,) if not present.streaming else ()
    assert states_of(story, present) == (state, *expected)


def test_all_states_that_hold_are_said_the_most_urgent_first() -> None:
    """A node may have several problems at once."""
    story = account(exits_lost=5, ends=9, slow=40)
    present = Present(answers=True, streaming=False, wanted=True, exclusive=False, ghosts=2)
    assert states_of(story, present) == (
        NodeState.LOSING,
        NodeState.MISLISTED,
        NodeState.FLAPPING,
        NodeState.EXITS_LATE,
        NodeState.INTERRUPTED,
    )


@pytest.mark.parametrize("event", [each for each in Lifecycle if each is not DIED])
def test_every_event_but_the_exit_is_an_other(event: Lifecycle) -> None:
    """Four lost of any one kind are more than a few."""
    found = Counter(
        {(Verdict.WITNESSED, event, None): 100, (Verdict.MISSED, event, Cause.SILENT): 4}
    )
    story = Account(found, received=100, ends=0, timed=0, slow=0)
    assert states_of(story, STREAMING) == (NodeState.LOSING,)


def test_by_design_is_no_loss_and_in_no_denominator() -> None:
    """A runtime that never announces something does not owe it."""
    story = account(exits=3, exits_lost=3, cause=Cause.BY_DESIGN)
    assert (story.lost(Cause.SILENT, Cause.STALLED), story.owed((DIED,))) == (0, 0)


@pytest.mark.parametrize(
    ("lost", "owed", "beyond"),
    [
        *((0, 0, False), (1, 0, True), (1, 90, True), (1, 100, False)),
        *((2, 300, True), (2, 1000, False), (4, 1000, False), (5, 1000, True)),
        *((19, 10_000, False), (20, 10_000, True)),
        # What is never announced may be missed in a later window than it was seen.
        *((0, -5, False), (1, -5, True)),
    ],
)
def test_what_chance_explains_is_not_beyond_the_objective(
    lost: int, owed: int, *, beyond: bool
) -> None:
    """Three standard deviations above one in a thousand."""
    assert is_beyond(lost, owed) is beyond


def test_the_alerts_ask_by_the_same_numbers() -> None:
    """A page and an alert that disagree about one node are worth nothing."""
    shipped = values.load()
    asked = shipped.thresholds
    assert values.seconds(shipped.windows.losses) == judged.WINDOW_SECONDS
    assert 1 - shipped.slo.objective / 100 == pytest.approx(judged.ALLOWED)
    assert (asked.few_losses, asked.flapping_disconnects) == (judged.FEW, judged.FEW_ENDS)
    late = asked.exit_p50_seconds, asked.exit_least_exits
    assert late == (judged.LATE_SECONDS, judged.LEAST_EXITS)
