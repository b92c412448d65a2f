"""Where the shapes of the HTML report's charts are."""

import pytest

from fleet.charts import BOTTOM, LEFT, RIGHT, TOP, Axes, ShareAxis, axes
from fleet.fleet import Line
from fleet.options import Span

pytestmark = pytest.mark.quick
SPAN = Span(300, 12, 3600)


@pytest.mark.parametrize(
    ("highest", "labels"),
    [
        (0, "0 1"),
        (3, "0 1 2 3"),
        (7, "0 2 4 6 8"),
        (9, "0 3 6 9"),
        (52, "0 20 40 60"),
        (100, "0 25 50 75 100"),
        (390, "0 100 200 300 400"),
        (1800, "0 500 1,000 1,500 2,000"),
        (9900, "0 2,500 5,000 7,500 10,000"),
    ],
)
def test_an_axis_has_a_few_round_steps_and_room_for_the_highest(highest: int, labels: str) -> None:
    """Of 1, 2, 2.5 or 5 times a power of ten; whole numbers."""
    scale = axes(SPAN, highest)
    ticks = scale.y_ticks()
    assert " ".join(text for _, text in ticks) == labels
    assert (ticks[0][0], ticks[-1][0]) == (BOTTOM, TOP)


@pytest.mark.parametrize(
    ("seconds", "first", "last"),
    [(3600, "00:00", "01:00"), (2 * 86400, "00:00", "00:00"), (7 * 86400, "01-01", "01-08")],
)
def test_times_are_as_short_as_they_can_be_told_apart(seconds: int, first: str, last: str) -> None:
    """Hours for up to two days, then days."""
    ticks = Axes(Span(300, seconds // 300, seconds), 1, 1).x_ticks()
    assert (ticks[0], ticks[-1]) == ((LEFT, first), (RIGHT, last))
    assert len(ticks) == 8


def test_a_path_is_interrupted_where_there_is_no_value() -> None:
    """A single point is a line, too."""
    points = ((0, 0.0), (1800, None), (2700, 1.0), (3600, 2.0))
    drawn = Axes(SPAN, 1, 2).path(Line("watched", points))
    assert drawn == "M60.0 200.0 h1 M682.5 106.0 h1 L890.0 12.0"


def test_shares_are_placed_by_their_power_of_ten() -> None:
    """Zero is at the left end, where the axis begins."""
    axis = ShareAxis(-4)
    (left, smallest), *_, (right, largest) = axis.ticks()
    assert (smallest, largest) == ("0.01 %", "100 %")
    assert axis.x(0) == axis.x(1e-9) == left
    assert axis.x(0.01) == pytest.approx((left + right) / 2)
