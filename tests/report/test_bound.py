"""The bounds against values from the literature and against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.report.bound import lower, needed, upper

pytestmark = pytest.mark.quick
# Clopper and Pearson's one-sided 95 % upper bounds, as published tables have them.
PUBLISHED = (
    (0, 10, 0.2589),
    (1, 10, 0.3942),
    (2, 10, 0.5069),
    (5, 10, 0.7776),
    (0, 20, 0.1391),
    (1, 20, 0.2161),
    (0, 100, 0.0295),
    (3, 100, 0.0757),
)


def at_most(k: int, n: int, p: float) -> float:
    """The chance of no more than `k` among `n`, summed exactly."""
    share = Fraction(p)
    terms = (math.comb(n, i) * share**i * (1 - share) ** (n - i) for i in range(k + 1))
    return float(sum(terms, Fraction(0)))


@pytest.mark.parametrize(("k", "n", "bound"), PUBLISHED)
def test_the_upper_bound_is_the_published_one(k: int, n: int, bound: float) -> None:
    """To the four digits of the tables."""
    assert round(upper(k, n), 4) == bound


def test_without_a_loss_it_is_the_exact_form_of_the_rule_of_three() -> None:
    """1 - 0.05^(1/n), for which people remember 3/n."""
    assert upper(0, 3000) == pytest.approx(1 - 0.05 ** (1 / 3000), rel=1e-12)
    assert upper(0, 3000) == pytest.approx(3 / 3000, rel=0.002)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 120).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n))))
def test_at_the_upper_bound_so_few_losses_have_a_chance_of_5_percent(case: tuple[int, int]) -> None:
    """Its definition, in fractions that round nothing."""
    k, n = case
    assert at_most(k, n, upper(k, n)) == pytest.approx(0.05, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 120).flatmap(lambda n: st.tuples(st.integers(1, n), st.just(n))))
def test_at_the_lower_bound_so_many_losses_have_a_chance_of_5_percent(
    case: tuple[int, int],
) -> None:
    """Its definition, too."""
    k, n = case
    assert 1 - at_most(k - 1, n, lower(k, n)) == pytest.approx(0.05, rel=1e-9)


def test_the_ends_are_no_special_cases_for_the_reader() -> None:
    """Nothing judged: anything is possible. All lost: at most all, and hardly fewer than most."""
    assert (upper(0, 0), lower(0, 0)) == (1, 0)
    assert (upper(7, 7), lower(0, 7)) == (1, 0)
    assert lower(7, 7) == pytest.approx(0.05 ** (1 / 7))


@pytest.mark.parametrize(("k", "n"), [(3, 10**6), (500, 10**7), (10**5, 10**8), (10**6, 10**9)])
def test_a_large_fleet_is_bounded_as_well(k: int, n: int) -> None:
    """Where the normal approximation of the tail holds, the bound is near it."""
    near = (k + 1.645 * math.sqrt(k)) / n
    assert k / n < upper(k, n) < 2.6 * near
    if k >= 500:
        assert upper(k, n) == pytest.approx(near, rel=0.01)


@pytest.mark.parametrize(
    ("k", "allowed", "least"), [(0, 0.001, 2995), (0, 0.05, 59), (1, 0.05, 93)]
)
def test_the_least_number_that_would_show_it(k: int, allowed: float, least: int) -> None:
    """59 and 93 are the well-known sample sizes of 95/95 tolerance; 2995 is ln(0.05)/ln(0.999)."""
    assert needed(k, allowed) == least
    assert upper(k, least) <= allowed < upper(k, least - 1)
