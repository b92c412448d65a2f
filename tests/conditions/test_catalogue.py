"""The catalogue: which conditions hold, by stories; and what each row owes its surfaces."""

from collections import Counter
from dataclasses import replace
from itertools import product
from math import comb
from typing import Any

import pytest

from alerts import values
from exporter.conditions import account as judged
from exporter.conditions.account import Account, Counts, is_beyond
from exporter.conditions.catalogue import ALL, BY_NAME, holding, now
from exporter.conditions.condition import Condition, Mood, Present
from exporter.model.events import Lifecycle
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import Flaw, KernelWitness, OomKill, StreamState
from exporter.settings.routes import MOST_CHARACTERS
from tests import table

pytestmark = pytest.mark.quick

DIED, STARTED = Lifecycle.DIED, Lifecycle.STARTED
STREAMING = Present(answers=True, stream=StreamState.STREAMING)
DOWN = replace(STREAMING, stream=StreamState.BACKOFF)


def standing(verdict: Verdict, present: Present = STREAMING) -> Present:
    return replace(present, standing={verdict: 2})


PRESENT = {
    "streaming": STREAMING,
    "down": DOWN,
    "not asked": replace(DOWN, answers=None),
    "ended": replace(DOWN, stream_reason="eof", retry_wall=90_061.0),
    "silent runtime": replace(STREAMING, answers=False, relist_reason="unavailable"),
    "runtime that was silent": replace(STREAMING, answered_wall=3_661.5),
    "runtime silent since then": replace(STREAMING, answers=False, answered_wall=3_661.5),
    "late lists": replace(STREAMING, answers=False, relist_reason="deadline_exceeded"),
    "large lists": replace(STREAMING, answers=False, relist_reason="resource_exhausted"),
    "nearly large lists": replace(STREAMING, list_bytes=13 << 20, nearly_unsendable=True),
    "refused": replace(STREAMING, stream=StreamState.REFUSED, exclusive=True),
    "disabled": replace(STREAMING, stream=StreamState.DISABLED),
    "unsupported": replace(STREAMING, stream=StreamState.UNSUPPORTED),
    "exclusive": replace(STREAMING, exclusive=True),
    "slow relist": replace(STREAMING, relist_seconds=11.0),
    "unresolved": replace(STREAMING, unresolved=20),
    "overdue relist": replace(STREAMING, overdue=11.0),
    "garbled": replace(STREAMING, garbled=("ns/pod/name",)),
    "blind": replace(STREAMING, kernel=KernelWitness.UNAVAILABLE, kernel_note="no such folder"),
    "ghost": standing(Verdict.GHOST),
    "stray": standing(Verdict.STRAY),
    "twin": standing(Verdict.TWIN),
    "frozen": standing(Verdict.FROZEN),
    "stale status": standing(Verdict.STALE),
    "unknown to the kubelet": standing(Verdict.UNKNOWN_TO_KUBELET),
    "process that lives": standing(Verdict.OVERDUE_PROCESS),
    "late runtime": standing(Verdict.OVERDUE_RUNTIME),
    "late kubelet": standing(Verdict.OVERDUE_KUBELET),
    "down with ghosts": standing(Verdict.GHOST, DOWN),
}
STORIES = table(__file__, "stories.yaml")


# What is usual of each number of a story.
USUAL = {"exits": 40, "others": 120, "received": 100, "timed": 40}
USUAL |= dict.fromkeys(
    (
        *("exits_lost", "others_lost", "late", "gaps", "disagreeing", "flawed", "contradicted"),
        *("ends", "slow", "discarded", "lags", "survived", "mislabelled", "ooms", "reasons"),
    ),
    0,
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
            (Verdict.DISAGREES, DIED, None): of["disagreeing"],
            (Verdict.FLAWED, STARTED, Flaw.NO_POD): of["flawed"],
            (Verdict.CONTRADICTED, STARTED, None): of["contradicted"],
            (Verdict.OOM, DIED, OomKill.SURVIVED): of["survived"],
            (Verdict.OOM, DIED, OomKill.ANNOUNCED_AS_ERROR): of["mislabelled"],
            (Verdict.OOM, DIED, OomKill.ANNOUNCED): of["ooms"],
            (Verdict.OOM, DIED, OomKill.REASON_ONLY): of["reasons"],
        }
    )
    names = "received", "ends", "timed", "slow", "discarded", "lags"
    return Account(found, **{name: of[name] for name in names})


@pytest.mark.parametrize("story", STORIES, ids=str)
def test_each_story_has_its_conditions(story: dict[str, Any]) -> None:
    """All that hold, the most urgent first; `held`: seconds for which others were seen so."""
    numbers = dict(story)
    expected, held = numbers.pop("conditions"), numbers.pop("held", {})
    present = PRESENT[numbers.pop("present", "streaming")]
    found = holding(account(**numbers), present, held)
    assert [each.name for each in found] == expected


def test_every_row_has_a_story() -> None:
    assert {name for story in STORIES for name in story["conditions"]} == BY_NAME.keys()


@pytest.mark.parametrize("row", ALL, ids=lambda row: row.name)
def test_a_row_has_an_answer_for_each_surface_or_says_why_not(row: Condition) -> None:
    """An alert and what to do, or why none is owed; names that are there; and one good mood."""
    assert bool(row.alert) is not bool(row.silent)
    assert bool(row.todo) is bool(row.alert)
    assert BY_NAME.keys() >= set(row.part_of)
    assert row.headline.isascii()
    assert not row.headline.endswith(".")
    assert row.mood is not Mood.GOOD or row.name in {"idle", "complete"}


@pytest.mark.parametrize("present", PRESENT.values(), ids=PRESENT)
def test_what_is_said_is_sentences_and_the_first_fits_a_node_condition(present: Present) -> None:
    """Also of what is over. The kubelet's own message of a condition has 80 characters."""
    few = account(received=0, gaps=1)
    many = account(exits=100_000, exits_lost=10_000, cause="stalled")
    for row, its in product(ALL, (few, many)):
        sentences = [*row.sentences(its, present)]
        for said in sentences:
            assert said.endswith("."), (row.name, said)
            assert said[0].isdigit() or said[0].isupper() or said.startswith("ns/"), said
        if row.node_condition:
            assert sentences[0].isascii()
            assert len(sentences[0]) <= MOST_CHARACTERS, sentences[0]


def test_an_attempt_under_way_is_not_announced_for_a_time_that_has_passed() -> None:
    """A runtime that was stopped let each attempt wait for 20 s."""
    trying = replace(DOWN, stream=StreamState.CONNECTING, retry_wall=90_061.0)
    (said,) = BY_NAME["stream_down"].sentences(account(), trying)
    assert said == "The exporter is subscribing."


def test_rows_of_one_alert_are_as_grave() -> None:
    """A rule has one severity, and is owed by one kind of kubelet."""
    for alert in {row.alert for row in ALL if row.alert}:
        rows = [row for row in ALL if row.alert == alert]
        assert len({(row.severity, row.reliance) for row in rows}) == 1, alert


def test_what_is_so_now_is_remembered_of_states_alone() -> None:
    """Counts have a window of their own."""
    assert now(account(exits_lost=9), PRESENT["down with ghosts"]) == {"ghosts", "stream_down"}
    assert now(account(), PRESENT["slow relist"]) == {"relists_slow"}
    assert now(account(lags=99), PRESENT["slow relist"]) == set()


@pytest.mark.parametrize("event", [each for each in Lifecycle if each is not DIED])
def test_every_event_but_the_exit_is_an_other(event: Lifecycle) -> None:
    found: Counts = Counter(
        {(Verdict.WITNESSED, event, None): 100, (Verdict.MISSED, event, Cause.SILENT): 4}
    )
    story = Account(found, received=100)
    assert [each.name for each in holding(story, STREAMING, {})] == ["losing"]


def test_what_is_late_by_one_cause_makes_up_for_no_other() -> None:
    """A stream that stalled was slow; what was lost while it delivered is lost."""
    found = account(exits_lost=2).found
    for verdict in (Verdict.LATE, Verdict.MISSED):
        found[verdict, DIED, Cause.STALLED] = 30
    story = Account(found, received=100)
    assert [each.name for each in holding(story, STREAMING, {})] == ["losing"]


def test_by_design_is_no_loss_and_in_no_denominator() -> None:
    """A runtime that never announces something does not owe it."""
    story = account(exits=3, exits_lost=3, cause="by_design")
    assert (story.lost(Cause.SILENT, Cause.STALLED), story.owed((DIED,))) == (0, 0)


@pytest.mark.parametrize(
    ("lost", "owed", "beyond"),
    [
        *((0, 0, False), (1, 0, False), (1, 1, False), (2, 2, True), (1, 90, False)),
        # By hand: n (n - 1) / 2 pairs, each lost once in a million, is one in a thousand at 45.
        *((2, 45, True), (2, 46, False), (3, 90, True), (3, 190, True), (3, 200, False)),
        *((4, 1000, False), (6, 1000, True), (10_050, 10_000_000, False)),
        *((10_400, 10_000_000, True), (10_000_000, 10_000_000, True)),
        # What is never announced may be missed in a later window than it was seen.
        *((0, -5, False), (2, -5, True)),
    ],
)
def test_what_chance_explains_is_not_beyond_the_objective(
    lost: int, owed: int, *, beyond: bool
) -> None:
    assert is_beyond(lost, owed) is beyond


def test_chance_is_the_binomial_tail() -> None:
    """At each number of events up to some thousand, so at each threshold."""
    for owed in range(1, 4000):
        below = 0.0
        for lost in range(min(owed, 20) + 1):
            assert is_beyond(lost, owed) is (1 - below < judged.CHANCE), (lost, owed)
            among, share = comb(owed, lost), judged.ALLOWED
            below += among * share**lost * (1 - share) ** (owed - lost)


def test_the_objective_is_that_of_the_alerts() -> None:
    shipped = values.load()
    assert values.seconds(shipped.windows.losses) == judged.WINDOW_SECONDS
    assert 1 - shipped.slo.objective / 100 == pytest.approx(judged.ALLOWED)
