"""How many examples Hypothesis tries: the same in each run, ten times as many by chance in a soak.

A run must not fail by luck; `make soak` (the profile `search`) is where luck may find something.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None, max_examples=100)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("steady")


def examples(times: float) -> settings:
    """So many times as many examples as a test has otherwise."""
    return settings(max_examples=round(times * settings.default.max_examples))
