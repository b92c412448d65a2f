"""Pauses between attempts and between relists, and limits of rates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.timing import MIN_SPACING, Backoff, Bucket, Pace

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
        (Backoff(), NO_JITTER, [1, 1, 1, 1, 2, 4, 8, 16, *[30] * 10_000]),
        (Backoff(cap=10.0), NO_JITTER, [1, 1, 1, 1, 2, 4, 8, 10, 10]),
        (Backoff(), MOST_JITTER, [1.5, 1.5, 1.5, 1.5, 3, 6, 12, 24, 45]),
    ],
)
def test_each_failure_doubles_the_pause_up_to_the_cap(
    backoff: Backoff, dice: float, expected: list[float]
) -> None:
    """Jitter lengthens each by half at most: nodes that lost the same runtime spread out."""
    assert delays(backoff, len(expected), dice) == pytest.approx(expected)


def test_an_attempt_that_reaches_nothing_is_repeated_every_second_for_a_while() -> None:
    """It costs the runtime nothing, and is no failure of an attempt that reaches it."""
    backoff = Backoff()
    absent = [backoff.delay(0.0, 0.5, 0.0, MOST_JITTER, absent=True) for _ in range(300)]
    assert absent == [1.0] * 300
    assert delays(backoff, 5) == [1, 1, 1, 1, 2]
    assert backoff.delay(0.0, 0.0, 0.0, NO_JITTER, absent=True) == 4
    backoff.start_over()
    assert backoff.delay(0.0, 0.0, 0.0, NO_JITTER, absent=True) == 1


def test_a_healthy_while_starts_it_over_and_a_short_one_does_not() -> None:
    backoff = Backoff()
    delays(backoff, 6)
    assert backoff.delay(0.0, 29.0, lasted=29.0, dice=NO_JITTER) == 8
    assert backoff.delay(0.0, 100.0, lasted=30.0, dice=NO_JITTER) == 0.25
    assert backoff.delay(0.0, 100.0, lasted=30.0, dice=MOST_JITTER) == pytest.approx(0.75)
    assert delays(backoff, 5) == [1, 1, 1, 1, 2]


@st.composite
def outcomes(draw: st.DrawFn) -> tuple[float, float, float, bool]:
    """How long an attempt took, how long of that it held, the dice, and if it reached nothing."""
    took = draw(st.floats(0, 120))
    dice = st.floats(0, 1, exclude_max=True)
    return took, draw(st.floats(0, took)), draw(dice), draw(st.booleans())


@given(series=st.lists(outcomes(), min_size=1, max_size=40), cap=st.floats(0, 60))
def test_no_series_of_outcomes_brings_two_attempts_within_a_second(
    series: list[tuple[float, float, float, bool]], cap: float
) -> None:
    backoff = Backoff(cap)
    tried_at = 0.0
    for took, lasted, dice, absent in series:
        now = tried_at + took
        pause = backoff.delay(tried_at, now, lasted, dice, absent=absent)
        assert now + pause >= tried_at + MIN_SPACING - TOLERANCE
        assert pause <= max(MIN_SPACING, 1.5 * cap) + TOLERANCE
        tried_at = now + pause


SECONDS = st.floats(0.0, 100.0)


def paced(*took: float) -> Pace:
    """A pace of 10 s and 1 %, at most 150 s, after relists that took so long."""
    pace = Pace(10.0, 0.01, threshold=180.0, timeout=30.0)
    for seconds in took:
        pace.spent(seconds)
    return pace


QUICK = ((), (0.0,), (0.1, 0.1), (30.0,), (0.1, 30.0), (30.0, 0.1))


@pytest.mark.parametrize(
    ("took", "period"),
    # 0.5 s in every 50 s is one percent; a list that takes half a minute is asked for all the same.
    [*((took, 10.0) for took in QUICK), ((0.5, 0.5), 49.5), ((30.0, 30.0), 150.0)],
)
def test_only_a_slow_runtime_is_listed_less_often(took: tuple[float, ...], period: float) -> None:
    """One slow list is an accident; and after a slow spell one quick list is proof enough."""
    pace = paced(*took)
    assert pace.period == period
    assert pace.stretched is (period > 10.0)


def test_a_period_that_is_longer_than_that_is_not_shortened() -> None:
    pace = Pace(3600.0, 0.01, threshold=180.0, timeout=30.0)
    assert pace.period == 3600.0


@given(seconds=st.floats(0.0, 150.0), dice=st.floats(0.0, 1.0, exclude_max=True))
def test_what_relists_show_is_never_older_than_the_threshold(seconds: float, dice: float) -> None:
    pace = paced(seconds, seconds)
    assert pace.pause(dice) + seconds <= 180.0 + (seconds <= 30.0) * 15.0 + 1e-9


@given(took=st.lists(SECONDS), dice=st.floats(0.0, 1.0, exclude_max=True))
def test_the_pause_is_the_period_more_or_less(took: list[float], dice: float) -> None:
    """Ten percent to either side, so that a fleet does not stay in step."""
    pace = paced(*took)
    assert pace.pause(dice) == pytest.approx(pace.period, rel=0.1 + 1e-9)
    assert pace.pause(0.0) < pace.period < pace.pause(0.999)


@given(took=st.lists(SECONDS, min_size=2), duty=st.floats(0.001, 1.0))
def test_no_more_of_the_time_than_allowed_goes_into_relists(took: list[float], duty: float) -> None:
    pace = Pace(1.0, duty, threshold=1e9, timeout=0.0)
    for seconds in took:
        pace.spent(seconds)
    steady = min(took[-2:])
    assert steady <= duty * (steady + pace.period) * (1 + 1e-9)


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    """However long it was left alone; and what is too much at once is not taken at all."""
    bucket = Bucket(rate=0.5, burst=2.0)
    spent = [bucket.spend(at) for at in (100, 100, 100, 102, 103)]
    assert spent == [True, True, False, True, False]
    assert [bucket.spend(9999, each) for each in (3.0, 2.0, 0.5)] == [False, True, False]
