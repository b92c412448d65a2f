"""The pauses between attempts: capped, jittered, and never less than a second apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.timing.backoff import MIN_SPACING, Backoff

pytestmark = pytest.mark.quick

NO_JITTER = 0.0
MOST_JITTER = 1.0 - 2**-53
TOLERANCE = 1e-6


def delays(backoff: Backoff, attempts: int, dice: float = NO_JITTER) -> list[float]:
    """The pauses after this number of attempts that failed at once."""
    return [backoff.delay(0.0, 0.0, lasted=0.0, dice=dice) for _ in range(attempts)]


@pytest.mark.parametrize(
    ("backoff", "dice", "expected"),
    [
        (Backoff(), NO_JITTER, [1, 1, 1, 1, 2, 4, 8, 16, 30, 30, 30]),
        (Backoff(cap=10.0, quick=1), NO_JITTER, [1, 2, 4, 8, 10, 10]),
        (Backoff(), MOST_JITTER, [1.5, 1.5, 1.5, 1.5, 3, 6, 12, 24, 45]),
    ],
)
def test_each_failure_doubles_the_pause_up_to_the_cap(
    backoff: Backoff, dice: float, expected: list[float]
) -> None:
    """Jitter lengthens each by half at most: nodes that lost the same runtime spread out."""
    assert delays(backoff, len(expected), dice) == pytest.approx(expected)


def test_who_reaches_nobody_goes_on_every_second_for_a_while() -> None:
    """It costs the runtime nothing, and is no failure of an attempt that reaches it."""
    backoff = Backoff(absent=10)
    absent = [backoff.delay(0.0, 0.5, 0.0, MOST_JITTER, absent=True) for _ in range(10)]
    assert absent == [1.0] * 10
    assert delays(backoff, 5) == [1, 1, 1, 1, 2]
    assert backoff.delay(0.0, 0.0, 0.0, NO_JITTER, absent=True) == 4
    backoff.start_over()
    assert backoff.delay(0.0, 0.0, 0.0, NO_JITTER, absent=True) == 1


def test_ten_thousand_failures_are_no_overflow() -> None:
    """An exporter that fails for months continues to try."""
    assert delays(Backoff(), 10_000)[-1] == 30


def test_a_healthy_while_starts_it_over() -> None:
    """After a stream that held, the next attempt is due soon, the one after it in a second."""
    backoff = Backoff()
    delays(backoff, 5)
    assert backoff.delay(0.0, 100.0, lasted=30.0, dice=NO_JITTER) == 0.25
    assert backoff.delay(0.0, 100.0, lasted=30.0, dice=MOST_JITTER) == pytest.approx(0.75)
    assert delays(backoff, 5) == [1, 1, 1, 1, 2]


def test_a_short_while_does_not_start_it_over() -> None:
    """A flapping stream backs off as if it had never been up."""
    backoff = Backoff()
    delays(backoff, 6)
    assert backoff.delay(0.0, 29.0, lasted=29.0, dice=NO_JITTER) == 8


def test_starting_over_forgets_the_failures() -> None:
    """A relist that worked makes the next failure a first one."""
    backoff = Backoff()
    delays(backoff, 5)
    backoff.start_over()
    assert delays(backoff, 1) == [1]


def test_a_healthy_attempt_shorter_than_the_spacing_waits_for_the_rest_of_it() -> None:
    """However short a healthy while is said to be, a second lies between two attempts."""
    backoff = Backoff(healthy=0.1)
    assert backoff.delay(10.0, 10.25, lasted=0.25, dice=NO_JITTER) == 0.75


@st.composite
def outcomes(draw: st.DrawFn) -> tuple[float, float, float, bool]:
    """How long an attempt took, how long of that it held, the dice, and if it reached nobody."""
    took = draw(st.floats(0, 120))
    dice = st.floats(0, 1, exclude_max=True)
    return took, draw(st.floats(0, took)), draw(dice), draw(st.booleans())


@given(
    series=st.lists(outcomes(), min_size=1, max_size=40),
    first=st.floats(0, 5),
    cap=st.floats(0, 60),
    healthy=st.floats(0, 60),
)
def test_no_series_of_outcomes_brings_two_attempts_within_a_second(
    series: list[tuple[float, float, float, bool]], first: float, cap: float, healthy: float
) -> None:
    """Whatever fails, holds or flaps, and however it is set up: one attempt a second at most."""
    backoff = Backoff(first=first, cap=cap, healthy=healthy)
    tried_at = 0.0
    for took, lasted, dice, absent in series:
        now = tried_at + took
        pause = backoff.delay(tried_at, now, lasted, dice, absent=absent)
        assert now + pause >= tried_at + MIN_SPACING - TOLERANCE
        assert pause <= max(MIN_SPACING, 1.5 * cap) + TOLERANCE
        tried_at = now + pause
