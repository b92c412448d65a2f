"""How long it rests between two relists, told how long they took."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.timing.pace import Pace

pytestmark = pytest.mark.quick

SECONDS = st.floats(0.0, 100.0)


def paced(*took: float) -> Pace:
    """A pace of 10 s and 1 %, at most 150 s, after relists that took so long."""
    pace = Pace(10.0, 0.01, longest=150.0)
    for seconds in took:
        pace.took(seconds)
    return pace


@pytest.mark.parametrize("took", [(), (0.0,), (0.1, 0.1), (30.0,), (0.1, 30.0), (30.0, 0.1)])
def test_a_quick_runtime_is_listed_every_period(took: tuple[float, ...]) -> None:
    """One slow list is an accident; and after a slow spell one quick list is proof enough."""
    pace = paced(*took)
    assert pace.period == 10.0
    assert not pace.stretched


def test_a_slow_one_is_listed_less_often() -> None:
    """0.5 s in every 50 s is one percent."""
    pace = paced(0.5, 0.5)
    assert pace.period == pytest.approx(49.5)
    assert pace.stretched


def test_it_is_stretched_no_further_than_the_knowledge_lasts() -> None:
    """A list that takes half a minute is asked for all the same."""
    assert paced(30.0, 30.0).period == 150.0


def test_a_period_that_is_longer_than_that_is_not_shortened() -> None:
    """A configured period of an hour stays an hour."""
    pace = Pace(3600.0, 0.01, longest=150.0)
    assert pace.period == 3600.0


@given(took=st.lists(SECONDS), dice=st.floats(0.0, 1.0, exclude_max=True))
def test_the_pause_is_the_period_more_or_less(took: list[float], dice: float) -> None:
    """Ten percent to either side, so that a fleet does not stay in step."""
    pace = paced(*took)
    assert pace.pause(dice) == pytest.approx(pace.period, rel=0.1 + 1e-9)
    assert pace.pause(0.0) < pace.period < pace.pause(0.999)


@given(took=st.lists(SECONDS, min_size=2), duty=st.floats(0.001, 1.0))
def test_no_more_of_the_time_than_allowed_goes_into_relists(took: list[float], duty: float) -> None:
    """As long as two in a row take as long as the ones before did."""
    pace = Pace(1.0, duty, longest=1e9)
    for seconds in took:
        pace.took(seconds)
    steady = min(took[-2:])
    assert steady <= duty * (steady + pace.period) * (1 + 1e-9)
