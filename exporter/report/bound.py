"""How large the share of losses can be after `k` among `n` were seen: exact binomial bounds.

Clopper and Pearson's bounds at 95 %, one-sided, as quantiles of the beta distribution. With `k` = 0
the upper bound is 1 - 0.05^(1/n), of which the rule of three (3/n) is the rounded form. Blind spot:
losses are assumed to be independent, and bursts are not.
"""

from __future__ import annotations

import math
from typing import Final

CONFIDENCE: Final = 0.95
_DOUBT: Final = 1 - CONFIDENCE
# Doubles have no more precision: 2^-60 of the interval.
_HALVINGS: Final = 60
_TINY: Final = 1e-300
_CLOSE: Final = 1e-14
_MOST_TERMS: Final = 100_000
_MOST_TRIALS: Final = 10**12


def upper(k: int, n: int) -> float:
    """The largest share of losses consistent with `k` among `n`; 1 if nothing was judged."""
    if k >= n:
        return 1.0
    if k == 0:
        return -math.expm1(math.log(_DOUBT) / n)
    return _beta_quantile(CONFIDENCE, k + 1, n - k)


def lower(k: int, n: int) -> float:
    """The smallest share of losses consistent with `k` among `n`."""
    if k == 0 or n == 0:
        return 0.0
    if k >= n:
        return math.pow(_DOUBT, 1 / n)
    return _beta_quantile(_DOUBT, k, n - k + 1)


def needed(k: int, allowed: float) -> int:
    """The smallest `n` for which `k` losses fit an allowed share above 0; at most 10^12."""
    low, high = k, k + 1
    while upper(k, high) > allowed and high < _MOST_TRIALS:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if upper(k, middle) > allowed else (low, middle)
    return high


def _beta_quantile(share: float, a: float, b: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _beta(middle, a, b) < share else (low, middle)
    return (low + high) / 2


def _beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function, 0 < x < 1."""
    log = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    # The fraction converges fast only below the mean; the function is symmetric.
    if x < (a + 1) / (a + b + 2):
        return math.exp(log) * _fraction(x, a, b) / a
    return 1 - math.exp(log) * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz' method (DLMF 8.17.22)."""
    c, d = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _nonzero(1 + term * d)
            c = _nonzero(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < _CLOSE:
            break
    return value


def _nonzero(x: float) -> float:
    return x if abs(x) > _TINY else _TINY
