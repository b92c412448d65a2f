"""The bounds against exact arithmetic and sample sizes from the literature."""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.bound import lower, needed, upper

pytestmark = pytest.mark.quick


def at_most(k: int, n: int, p: float) -> float:
    """The chance of no more than `k` among `n`, summed exactly."""
    share = Fraction(p)
    terms = (math.comb(n, i) * share**i * (1 - share) ** (n - i) for i in range(k + 1))
    return float(sum(terms, Fraction(0)))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 120).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_at_a_bound_such_a_result_has_a_chance_of_5_percent(case: tuple[int, int]) -> None:
    """Their definition, in fractions that round nothing."""
    k, n = case
    if k < n:
        assert at_most(k, n, upper(k, n)) == pytest.approx(0.05, rel=1e-9)
    if k > 0:
        assert 1 - at_most(k - 1, n, lower(k, n)) == pytest.approx(0.05, rel=1e-9)


def test_the_ends_are_no_special_cases_for_the_reader() -> None:
    """Nothing judged: anything is possible. All lost: at most all, and hardly fewer than most."""
    assert (upper(0, 0), lower(0, 0)) == (1, 0)
    assert (upper(7, 7), lower(0, 7)) == (1, 0)
    assert lower(7, 7) == pytest.approx(0.05 ** (1 / 7))


@pytest.mark.parametrize("side", [upper, lower])
def test_of_millions_of_losses_the_bound_is_that_of_the_normal_distribution(
    side: Callable[[int, int], float],
) -> None:
    deviation = 1.6449 * 0.5 / math.sqrt(10**7)
    assert abs(side(5 * 10**6, 10**7) - 0.5) == pytest.approx(deviation, rel=1e-3)


def test_five_of_millions_are_bounded_as_five_are() -> None:
    """Poisson's bounds for five are 1.970 and 10.513, for what was kept as for what was lost."""
    n = 3 * 10**6
    assert upper(5, n) * n == pytest.approx(10.513, abs=0.001)
    assert (1 - lower(n - 5, n)) * n == pytest.approx(10.513, abs=0.001)
    assert lower(5, n) * n == pytest.approx(1.970, abs=0.001)


@pytest.mark.parametrize(
    ("k", "allowed", "least"), [(0, 0.001, 2995), (0, 0.05, 59), (1, 0.05, 93), (0, 0.96, 1)]
)
def test_the_sample_that_an_objective_needs_is_known(k: int, allowed: float, least: int) -> None:
    """59 and 93 are the well-known sample sizes of 95/95 tolerance; 2995 is ln(0.05)/ln(0.999)."""
    assert needed(k, allowed) == least
    assert upper(k, least) <= allowed < upper(k, least - 1)


def test_no_number_shows_that_hardly_any_are_lost() -> None:
    """The search ends somewhere."""
    assert needed(0, 1e-15) == 10**12
