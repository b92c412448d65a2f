"""Steps of the wall clock are noticed, and nothing else is taken for one."""

import pytest

from exporter.timing.clocks import Clocks

pytestmark = pytest.mark.quick


def test_a_clock_that_was_not_set_makes_no_step() -> None:
    clocks = Clocks()
    assert [clocks.look() for _ in range(100)] == [0.0] * 100


def test_a_step_is_noticed_once() -> None:
    clocks = Clocks()
    clocks.offset = 1000.0
    assert [clocks.see(at) for at in (1040.0, 1040.0, 1000.0, 1000.01)] == [40.0, 0.0, -40.0, 0.0]


def test_small_steps_count_once_they_add_up() -> None:
    """Each by itself is within the error of a reading."""
    clocks = Clocks()
    clocks.offset = 1000.0
    assert [clocks.see(1000.0 + n / 16) for n in range(4)] == [0.0, 0.0, 0.125, 0.0]
