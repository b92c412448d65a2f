"""How large the share of losses can be after `k` among `n` were seen: exact binomial bounds.

Clopper and Pearson's bounds at 95 %, one-sided. With `k` = 0 the upper bound is 1 - 0.05^(1/n), of
which the rule of three (3/n) is the rounded form. Blind spot: losses are assumed to be independent,
and bursts are not.
"""

from bisect import bisect_left
from typing import Final

from exporter.conditions.account import at_most

CONFIDENCE: Final = 0.95
# Doubles have no more precision: 2^-60 of the interval.
_HALVINGS: Final = 60
_TRIALS: Final = range(10**12)


def upper(k: int, n: int) -> float:
    """The largest share of losses consistent with `k` among `n`; 1 if nothing was judged."""
    if k >= n:
        return 1.0
    low, high = k / n, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if at_most(k, n, middle) > 1 - CONFIDENCE:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def lower(k: int, n: int) -> float:
    """The smallest share of losses consistent with `k` among `n`."""
    return 1 - upper(n - k, n)


def needed(k: int, allowed: float) -> int:
    """The smallest `n` for which `k` losses fit an allowed share above 0; at most 10^12."""
    return bisect_left(_TRIALS, -allowed, lo=k + 1, key=lambda n: -upper(k, n))
