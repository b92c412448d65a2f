"""The conditions of a node: when they change, and what they say."""

import pytest

from exporter.conditions.condition import NodeCondition
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import KernelWitness, StreamState
from exporter.node.judgement import not_alive, not_ready
from exporter.node.state import Node
from exporter.settings.config import Config
from exporter.settings.routes import MOST_CHARACTERS
from exporter.web.probes import Holds, NodeConditions
from tests.support.facts import found
from tests.support.stage import Stage

pytestmark = pytest.mark.quick

EVENTS, STALE = NodeCondition
THRESHOLD = 180.0
BEGAN = 10_000.0


class World(Stage):
    """One whose conditions are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.node.stream.state = StreamState.STREAMING
        self.node.kernel.state = KernelWitness.WATCHING
        self.conditions = NodeConditions(self.judge)
        self.answers = True

    def asked(self, condition: NodeCondition, after: float) -> Holds:
        now = BEGAN + after
        self.node.relist_succeeded = now if self.answers else BEGAN - THRESHOLD
        answer = self.conditions.answer(condition, now)
        assert answer.text.isascii()
        assert 0 < len(answer.text) <= MOST_CHARACTERS
        return answer.holds


@pytest.mark.parametrize("cause", [Cause.SILENT, Cause.STALLED])
def test_lost_exits_are_a_problem_until_the_window_forgets_them(cause: Cause) -> None:
    """Whatever the cause; and for five minutes more, as the alert goes on firing."""
    world = World()
    world.relist(BEGAN, *[found(Verdict.WITNESSED)] * 10, *[found(Verdict.MISSED, cause)] * 2)
    assert world.asked(EVENTS, 1.0) is Holds.TRUE
    text = world.conditions.answer(EVENTS, BEGAN + 2.0).text
    assert text == "2 of 10 lifecycle events (20 %) were lost in the last minute"
    assert world.asked(EVENTS, 890.0) is Holds.TRUE
    assert world.asked(EVENTS, 1000.0) is Holds.TRUE
    assert world.asked(EVENTS, 1301.0) is Holds.FALSE


def test_a_stream_that_ends_again_and_again_proves_nothing_complete() -> None:
    world = World()
    world.relist(BEGAN, *[found(Verdict.WITNESSED)] * 5)
    world.node.stream.ends["eof"] = 4
    assert world.asked(EVENTS, 1.0) is Holds.UNKNOWN


def test_ghosts_are_a_problem_if_they_stay() -> None:
    """A runtime that is slow to clean up is none; and once there was one, they must stay away."""
    world = World()
    world.standing[Verdict.GHOST] = 1
    assert world.asked(STALE, 0.0) is Holds.UNKNOWN
    assert world.asked(STALE, 600.0) is Holds.TRUE
    world = World()
    for after, ghosts, expected in (
        *((0.0, 0, Holds.FALSE), (10.0, 2, Holds.FALSE), (500.0, 2, Holds.FALSE)),
        *((520.0, 0, Holds.FALSE), (600.0, 2, Holds.FALSE), (1100.0, 2, Holds.FALSE)),
        *((1200.0, 2, Holds.TRUE), (1300.0, 0, Holds.TRUE), (1600.0, 0, Holds.FALSE)),
    ):
        world.standing[Verdict.GHOST] = ghosts
        assert world.asked(STALE, after) is expected, after


@pytest.mark.parametrize(
    ("condition", "blind"),
    [
        (EVENTS, {"stream": StreamState.BACKOFF}),
        (EVENTS, {"stream": StreamState.REFUSED}),
        (STALE, {"kernel": KernelWitness.UNAVAILABLE}),
        (STALE, {"kernel": KernelWitness.OFF}),
        (EVENTS, {"answers": False}),
        (STALE, {"answers": False}),
    ],
)
def test_a_condition_that_cannot_be_judged_for_long_is_unknown(
    condition: NodeCondition, blind: dict[str, object]
) -> None:
    """A short outage changes nothing, and the end of a long one shows at once."""
    world = World()
    node = world.node
    good = {"stream": node.stream.state, "kernel": node.kernel.state, "answers": True}
    for after, values, expected in (
        *((0.0, good, Holds.FALSE), (100.0, blind, Holds.FALSE), (390.0, blind, Holds.FALSE)),
        *((395.0, good, Holds.FALSE), (400.0, blind, Holds.FALSE), (700.0, blind, Holds.UNKNOWN)),
        (701.0, good, Holds.FALSE),
    ):
        for name, value in values.items():
            if name == "answers":
                world.answers = bool(value)
            else:
                getattr(node, name).state = value
        assert world.asked(condition, after) is expected, after


def test_a_node_is_ready_once_a_relist_has_succeeded_and_for_as_long_as_that_is_recent() -> None:
    """Without the runtime's own words, which may name pods: no login is asked for."""
    node, config = Node(), Config(relist_threshold=THRESHOLD)
    assert not_ready(node, config, 100.0) == "no relist has succeeded recently"
    node.relist_succeeded = 100.0
    node.relist_reason, node.relist_note = "unavailable", "ListPodSandbox: no pod kube-system/cart"
    assert not not_ready(node, config, 279.0)
    assert not_ready(node, config, 280.0) == "the last relist failed: unavailable"


def test_a_node_is_alive_until_its_relists_stand_still() -> None:
    node, config = Node(), Config(relist_period=10.0, relist_timeout=30.0)
    assert not not_alive(node, config, 1000.0)
    node.relist_begun = 100.0
    # One may take the two minutes that a kubelet waits.
    assert not not_alive(node, config, 240.9)
    assert not_alive(node, config, 241.1) == "no relist was begun for 141 s"
    # A slow runtime stretches the period.
    node.relist_period = 120.0
    assert not not_alive(node, config, 340.0)


def test_what_is_so_now_is_said_rather_than_what_is_over() -> None:
    """A shim was ended because of a ghost, and left a stray of the same pod."""
    world = World()
    world.standing[Verdict.GHOST] = 1
    for after in range(0, 601, 10):
        world.judge.look(BEGAN + after)
        world.asked(STALE, after)
    world.standing[Verdict.GHOST], world.standing[Verdict.STRAY] = 0, 1
    world.asked(STALE, 601.0)
    said = world.conditions.answer(STALE, BEGAN + 602.0).text
    assert said == "Containers running, but not listed as running: 1 now"
    world.standing[Verdict.STRAY] = 0
    said = world.conditions.answer(STALE, BEGAN + 603.0).text
    assert said == "Containers listed as running without a process: 0 now"
