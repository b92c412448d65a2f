"""Options are valid or say in one line what is wrong."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest

from exporter.simulator.options import DEMO, METADATA_HELP, Options

pytestmark = pytest.mark.quick

BAD = (
    ({"pods": -1}, "pods: must be from 0 to 10000, not -1"),
    ({"pods": 1.5}, "pods: must be a whole number, not 1.5"),
    ({"pods": True}, "pods: must be a number, not True"),
    ({"containers_per_pod": 1001}, "containers_per_pod: must be from 0 to 1000, not 1001"),
    ({"churn": "2"}, "churn: must be a number, not '2'"),
    ({"churn": math.nan}, "churn: must be from 0 to 10000, not nan"),
    ({"pods": 0}, "churn: must be 0 where there are no containers"),
    ({"pods": 1000, "containers_per_pod": 101}, "pods: at most 100000 containers in all"),
    ({"drop": 1.01}, "drop: must be from 0 to 1, not 1.01"),
    ({"duplicate": -0.1}, "duplicate: must be from 0 to 1, not -0.1"),
    ({"reorder": 2}, "reorder: must be from 0 to 1, not 2"),
    ({"failed_starts": 7}, "failed_starts: must be from 0 to 1, not 7"),
    ({"delay": 301}, "delay: must be from 0 to 300, not 301"),
    ({"list_latency": -1}, "list_latency: must be from 0 to 300, not -1"),
    ({"disconnect_every": -1}, "disconnect_every: must be 0 or more, not -1"),
    ({"restart_every": math.inf}, "restart_every: must be 0 or more, not inf"),
    ({"events": "on"}, "events: must be one of on, disabled, unimplemented, not 'on'"),
    (
        {"runtime": "docker"},
        "runtime: must be one of containerd/2.1.9, containerd/1.7.24, cri-o/1.36.3, not 'docker'",
    ),
    ({"seed": 0.5}, "seed: must be a whole number, not 0.5"),
)


@pytest.mark.parametrize(("values", "message"), BAD, ids=lambda value: str(value)[:30])
def test_a_bad_option_is_named(values: dict[str, Any], message: str) -> None:
    """ValueError with exactly this line."""
    with pytest.raises(ValueError, match="^" + message.split(":", 1)[0]) as error:
        Options(**values)
    assert str(error.value) == message


def test_the_default_is_a_full_node_without_faults() -> None:
    """66 pods of 7 containers, nothing lost; the demo loses some."""
    options = Options()
    assert (options.pods, options.containers_per_pod) == (66, 7)
    assert options.drop == 0
    assert DEMO.drop > 0


def test_every_option_has_a_meaning() -> None:
    """Flags are made of it."""
    assert all(option.metadata[METADATA_HELP] for option in fields(Options))
