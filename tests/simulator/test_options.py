"""Options are valid or say in one line what is wrong."""

import pytest

from exporter.errors import ConfigError
from exporter.settings.declaring import from_text
from simulator.options import DEMO_DEFAULTS, Options

pytestmark = pytest.mark.quick

NO_LIFE = "--churn: must be 0 where there are no containers"
WHOLE = "is not a whole number from"
BAD = (
    ("pods", "-1", f"--pods: '-1' {WHOLE} 0 to 10000"),
    ("pods", "1.5", f"--pods: '1.5' {WHOLE} 0 to 10000"),
    ("pods", "0", NO_LIFE),
    ("containers_per_pod", "1001", f"--containers-per-pod: '1001' {WHOLE} 0 to 1000"),
    ("containers_per_pod", "0", NO_LIFE),
    ("churn", "two", "--churn: 'two' is not a number from 0 to 10000"),
    ("churn", "10001", "--churn: '10001' is not a number from 0 to 10000"),
    *(
        (name, text, f"--{name.replace('_', '-')}: {text!r} is not a percentage from 0% to 100%")
        for name in ("drop", "duplicate", "reorder", "failed_starts", "ghosts", "strays")
        for text in ("0.01", "101%", "-1%", "nan", "")
    ),
    ("delay", "301s", "--delay: '301s' is longer than 300s: give less"),
    ("list_latency", "5m1s", "--list-latency: '5m1s' is longer than 300s: give less"),
    *(
        (name, text, f"--{name.replace('_', '-')}: {text!r} is not a duration: write it like 10s,")
        for name in ("delay", "exit_delay", "list_latency", "disconnect_every", "restart_every")
        for text in ("5", "-1s", "inf", "soon")
    ),
    ("stream_lists", "100001", f"--stream-lists: '100001' {WHOLE} 0 to 100000"),
    ("events", "off", "--events: 'off' is not one of on, disabled, unimplemented"),
    (
        "runtime",
        "docker",
        "--runtime: 'docker' is not one of containerd/2.1.9, containerd/1.7.24, cri-o/1.36.3",
    ),
    ("seed", "0.5", f"--seed: '0.5' {WHOLE} -9223372036854775808 to 9223372036854775807"),
)


@pytest.mark.parametrize(("name", "text", "message"), BAD)
def test_a_bad_option_is_named(name: str, text: str, message: str) -> None:
    """One line that says what can be given instead."""
    with pytest.raises(ConfigError) as error:
        from_text(Options, {name: text})
    assert str(error.value).startswith(message)


def test_a_node_has_at_most_100000_containers() -> None:
    """The limit is of the node, not only of each number."""
    with pytest.raises(ConfigError, match=r"^--pods: at most 100000 containers in all$"):
        Options(pods=1000, containers_per_pod=101)


def test_the_default_is_a_full_node_without_faults() -> None:
    """66 pods of 7 containers, nothing lost; the demo loses some."""
    options = Options()
    assert (options.pods, options.containers_per_pod) == (66, 7)
    assert options.drop == 0
    assert from_text(Options, {}, {}, DEMO_DEFAULTS).drop > 0


def test_a_container_is_a_ghost_or_a_stray() -> None:
    """The two shares are of the ends of all containers."""
    with pytest.raises(ConfigError, match=r"^--ghosts, --strays: a container is one of them"):
        Options(ghosts=0.6, strays=0.6)
