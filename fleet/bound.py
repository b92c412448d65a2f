"""How large the share of losses can be after `k` among `n` were seen: exact binomial bounds.

Clopper and Pearson's bounds at 95 %, one-sided. With `k` = 0 the upper bound is 1 - 0.05^(1/n), of
which the rule of three (3/n) is the rounded form. Blind spot: losses are assumed to be independent,
and bursts are not.
"""

import math
from statistics import NormalDist
from typing import Final

CONFIDENCE: Final = 0.95
_DOUBT: Final = 1 - CONFIDENCE
# Doubles have no more precision: 2^-60 of the interval.
_HALVINGS: Final = 60
_NEGLIGIBLE: Final = 1e-17
# Of so many the normal distribution's bound differs by about a millionth.
_MANY: Final = 10**6
_NORMAL: Final = NormalDist().inv_cdf(CONFIDENCE)
_MOST_TRIALS: Final = 10**12


def upper(k: int, n: int) -> float:
    """The largest share of losses consistent with `k` among `n`; 1 if nothing was judged."""
    if k >= n:
        return 1.0
    return _share(k, n, k / n, 1.0, -1)


def lower(k: int, n: int) -> float:
    """The smallest share of losses consistent with `k` among `n`."""
    if k == 0:
        return 0.0
    return _share(k, n, k / n, 0.0, 1)


def needed(k: int, allowed: float) -> int:
    """The smallest `n` for which `k` losses fit an allowed share above 0; at most 10^12."""
    low, high = k, k + 1
    while upper(k, high) > allowed and high < _MOST_TRIALS:
        low, high = high, min(2 * high, _MOST_TRIALS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if upper(k, middle) > allowed else (low, middle)
    return high


def _share(k: int, n: int, likely: float, unlikely: float, step: int) -> float:
    """The share between these two at which `k` losses, or further ones, have a chance of 5 %."""
    if min(k, n - k) > _MANY:
        return likely - step * _NORMAL * math.sqrt(likely * (1 - likely) / n)
    for _ in range(_HALVINGS):
        middle = (likely + unlikely) / 2
        if _tail(k, n, middle, step) > _DOUBT:
            likely = middle
        else:
            unlikely = middle
    return (likely + unlikely) / 2


def _tail(k: int, n: int, p: float, step: int) -> float:
    """The chance of `k` losses or more (`step` 1), or of `k` or fewer (-1).

    `k` lies on that side of the mean, so each term is smaller than the one before it.
    """
    choices = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    term = math.exp(choices + k * math.log(p) + (n - k) * math.log1p(-p))
    odds, total = p / (1 - p), 0.0
    while term > total * _NEGLIGIBLE:
        total += term
        term *= (n - k) / (k + 1) * odds if step > 0 else k / (n - k + 1) / odds
        k += step
    return total
