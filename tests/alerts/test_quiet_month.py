"""A month of ordinary operations, in which no person hears of anything."""

from bisect import bisect_right
from pathlib import Path

import pytest

from tests.support.months import QuietMonth, read
from tests.support.promtool import evaluate

MONTH = read("quiet_month", QuietMonth)
BEGINS = MONTH.begins
MIDDLE = BEGINS[len(BEGINS) // 2]
# Each second minute: half of the time.
HALVES = {"first": range(0, MIDDLE, 2), "second": range(MIDDLE, BEGINS[-1], 2)}


def on(minute: int) -> str:
    """The day, and what is done on it."""
    day = bisect_right(BEGINS, minute) - 1
    return f"day {day + 1}, minute {minute - BEGINS[day]}: {MONTH.days[day].story}"


# At the same time.
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "half",
    [
        pytest.param(half, marks=pytest.mark.xdist_group(f"tests/alerts/quiet_month/{half}"))
        for half in HALVES
    ],
)
def test_ordinary_operations_fire_nothing(promtool: Path, tmp_path: Path, half: str) -> None:
    """In any minute; the failure names the day."""
    found = evaluate(promtool, tmp_path, [MONTH.fleet()], HALVES[half])
    fired = [f"{on(each.since)}: {each}" for each in found.fired]
    assert not fired, "\n".join(fired)
