"""The account of a node: what is lost, and the state that follows, each by hand."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts import values
from exporter import account as judged
from exporter.account import Account, Counts, NodeState, Present, is_beyond, states_of
from exporter.model.events import Lifecycle
from exporter.model.findings import Cause, Verdict

pytestmark = pytest.mark.quick

DIED, STARTED = Lifecycle.DIED, Lifecycle.STARTED
STREAMING = Present(answers=True, streaming=True, wanted=True, exclusive=False)
DOWN = replace(STREAMING, streaming=False)
PRESENT = {
    "streaming": STREAMING,
    "down": DOWN,
    "not asked": replace(DOWN, answers=None),
    "silent runtime": replace(STREAMING, answers=False),
    "refused": replace(DOWN, wanted=False, exclusive=True),
    "exclusive": replace(STREAMING, exclusive=True),
    "ghost": replace(STREAMING, ghosts=1),
    "stray": replace(STREAMING, strays=1),
    "stale status": replace(STREAMING, stale=1),
    "unknown to the kubelet": replace(STREAMING, unknown=1),
    "down with ghosts": replace(DOWN, ghosts=2),
}
STORIES = yaml.safe_load(Path(__file__).with_name("account.yaml").read_text(encoding="utf-8"))


# What is usual of each number of a story.
USUAL = {"exits": 40, "others": 120, "received": 100, "timed": 40} | dict.fromkeys(
    ("exits_lost", "others_lost", "late", "gaps", "ends", "slow"), 0
)


def account(*, cause: str = "silent", **numbers: int) -> Account:
    """Lost by that cause; of the exits that were lost, so many came `late`."""
    assert numbers.keys() <= USUAL.keys()
    of, why = USUAL | numbers, Cause(cause)
    found: Counts = Counter(
        {
            (Verdict.WITNESSED, DIED, None): of["exits"],
            (Verdict.WITNESSED, STARTED, None): of["others"],
            (Verdict.MISSED, DIED, why): of["exits_lost"],
            (Verdict.MISSED, STARTED, why): of["others_lost"],
            (Verdict.LATE, DIED, why): of["late"],
            (Verdict.GAP, STARTED, None): of["gaps"],
        }
    )
    return Account(found, of["received"], of["ends"], of["timed"], of["slow"])


@pytest.mark.parametrize("story", STORIES, ids=str)
def test_each_story_has_its_states(story: dict[str, Any]) -> None:
    """All that hold, the most urgent first; what one says no other repeats."""
    numbers = dict(story)
    states = tuple(NodeState[name] for name in numbers.pop("states"))
    present = PRESENT[numbers.pop("present", "streaming")]
    assert states_of(account(**numbers), present) == states


@pytest.mark.parametrize("event", [each for each in Lifecycle if each is not DIED])
def test_every_event_but_the_exit_is_an_other(event: Lifecycle) -> None:
    """Four lost of any one kind are more than a few."""
    found: Counts = Counter(
        {(Verdict.WITNESSED, event, None): 100, (Verdict.MISSED, event, Cause.SILENT): 4}
    )
    story = Account(found, received=100, ends=0, timed=0, slow=0)
    assert states_of(story, STREAMING) == (NodeState.LOSING,)


def test_by_design_is_no_loss_and_in_no_denominator() -> None:
    """A runtime that never announces something does not owe it."""
    story = account(exits=3, exits_lost=3, cause="by_design")
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
