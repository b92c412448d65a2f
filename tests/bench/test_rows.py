"""Whether a bar is held: noise must not decide."""

from collections.abc import Sequence

import pytest

from bench.rows import Ratio, Row, Section, Verdict, beside_noise, resampled, spread

pytestmark = pytest.mark.quick

STILL = Ratio(1.0, 0.99, 1.01)
NOISY = Ratio(0.99, 0.96, 1.01)
MET, NOT_MET, CANNOT_TELL = Verdict.MET, Verdict.NOT_MET, Verdict.CANNOT_TELL


@pytest.mark.parametrize(
    ("low", "high", "control", "verdict"),
    [
        (0.99, 1.02, STILL, MET),
        (1.04, 1.08, STILL, NOT_MET),
        (1.01, 1.04, STILL, CANNOT_TELL),
        # The control is as wide as the bar: neither below it nor just above it proves anything.
        (0.99, 1.02, NOISY, CANNOT_TELL),
        (1.035, 1.08, NOISY, CANNOT_TELL),
        # Out of the noise, too.
        (1.05, 1.08, NOISY, NOT_MET),
    ],
)
def test_a_bar_is_judged_by_the_interval_and_the_control(
    low: float, high: float, control: Ratio, verdict: Verdict
) -> None:
    """Met below the bar, not met above it, and neither where the noise is as large."""
    assert Ratio((low + high) / 2, low, high).held_to(1.03, control) is verdict


def test_rounds_that_agree_have_a_narrow_interval() -> None:
    """And those that do not, a wide one, with the ratio of the sums in it."""

    def ratio(rounds: Sequence[tuple[float, float]]) -> float:
        return sum(us for us, _ in rounds) / sum(alone for _, alone in rounds)

    same = resampled([(1.02, 1.0)] * 30, ratio)
    assert same.low == pytest.approx(same.high) == pytest.approx(1.02)
    apart = resampled([(1.5, 1.0), (0.5, 1.0)] * 15, ratio)
    assert apart.low < 0.9 < apart.figure < 1.1 < apart.high


def test_what_limits_a_figure_is_told_where_its_bar_is_not_met() -> None:
    """And only there; a table without bars has no column for them."""
    slow = Row("slow", "2 s", "at most 1 s", NOT_MET).because("the disk is")
    fast = Row("fast", "1 s", "at most 1 s", MET).because("the disk is")
    page = Section("Speed", "How.", (slow, fast)).markdown()
    assert "| slow | 2 s | at most 1 s | **not met**: the disk is |" in page
    assert "| fast | 1 s | at most 1 s | met |" in page
    assert "bar" not in Section("Speed", "How.", (Row("fast", "1 s"),)).markdown()


@pytest.mark.parametrize(
    ("measured", "noise", "verdict"),
    [(4.9, 4.0, MET), (5.5, 0.4, NOT_MET), (5.5, 0.6, CANNOT_TELL), (5.5, 0.0, NOT_MET)],
)
def test_a_figure_above_its_bar_by_less_than_the_noise_tells_nothing(
    measured: float, noise: float, verdict: Verdict
) -> None:
    """By more than that it is not met."""
    assert beside_noise("slow", measured, 5.0, "s", noise).verdict is verdict


def test_a_figure_has_its_spread() -> None:
    """The median and the range; one value alone has none."""
    assert spread([3.0, 1.0, 2.0], "ms") == "2.0 ms (1.0 to 3.0)"
    assert spread(2.0, "ms") == "2.0 ms"
