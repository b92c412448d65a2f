"""The conditions of a node: when they change, and what they say."""

import pytest

from exporter.model.events import Lifecycle, ObjectKind
from exporter.model.facts import StreamUp
from exporter.model.findings import Cause, Finding, Outcome, Verdict
from exporter.model.labels import KernelWitness, StreamState
from exporter.node.history import History
from exporter.node.judgement import Judge
from exporter.node.state import Node
from exporter.settings.routes import MOST_CHARACTERS, Condition
from exporter.web.probes import Conditions, Holds

pytestmark = pytest.mark.quick

EVENTS, STALE = Condition
THRESHOLD = 180.0
BEGAN = 10_000.0


class World:
    """A node in which a test lets things happen at times that it chooses."""

    def __init__(self) -> None:
        self.node = Node(stream=StreamState.STREAMING, kernel=KernelWitness.WATCHING)
        self.history = History(self.node)
        self.ghosts = 0
        judge = Judge(self.node, self.history, lambda what: self.ghosts * (what is Verdict.GHOST))
        self.conditions = Conditions(judge)
        self.answers = True

    def asked(self, condition: Condition, after: float) -> Holds:
        """What it says so many seconds after the beginning."""
        now = BEGAN + after
        self.node.relist_succeeded = now if self.answers else BEGAN - THRESHOLD
        answer = self.conditions.answer(condition, now)
        assert answer.text.isascii()
        assert 0 < len(answer.text) <= MOST_CHARACTERS
        return answer.holds

    def found(
        self, verdict: Verdict, number: int, after: float, cause: Cause | None = None
    ) -> None:
        """So many findings at that time."""
        cause = cause or (Cause.SILENT if verdict is Verdict.MISSED else None)
        finding = Finding(verdict, Lifecycle.DIED, ObjectKind.CONTAINER, "c1", cause=cause)
        self.history.took(StreamUp(BEGAN + after, 0), Outcome(tuple([finding] * number)))


def test_a_healthy_node_has_no_problem_from_the_start() -> None:
    """Nothing is waited for."""
    world = World()
    for condition in Condition:
        assert world.asked(condition, 0.0) is Holds.FALSE


def test_before_anything_is_known_it_is_unknown() -> None:
    """The runtime has not answered yet."""
    world = World()
    world.answers = False
    for condition in Condition:
        assert world.asked(condition, 0.0) is Holds.UNKNOWN
        assert world.asked(condition, 3600.0) is Holds.UNKNOWN


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (Cause.SILENT, "the event stream loses events: 2 of 10 lost"),
        (Cause.STALLED, "the event stream is open and delivers nothing in time: 2 of 10 lost"),
    ],
)
def test_lost_exits_are_a_problem_until_the_window_forgets_them(cause: Cause, words: str) -> None:
    """Whoever is to blame; and for five minutes more, as the alert goes on firing."""
    world = World()
    world.found(Verdict.WITNESSED, 10, 0.0)
    world.found(Verdict.MISSED, 2, 0.0, cause)
    assert world.asked(EVENTS, 1.0) is Holds.TRUE
    assert world.conditions.answer(EVENTS, BEGAN + 2.0).text == words
    assert world.asked(EVENTS, 890.0) is Holds.TRUE
    assert world.asked(EVENTS, 1000.0) is Holds.TRUE
    assert world.asked(EVENTS, 1301.0) is Holds.FALSE


def test_events_that_came_late_are_not_lost() -> None:
    """They were announced after all: also what an outage delays excuses no other loss."""
    world = World()
    world.found(Verdict.WITNESSED, 5, 0.0)
    world.found(Verdict.MISSED, 5, 0.0)
    world.found(Verdict.LATE, 5, 10.0, Cause.SILENT)
    assert world.asked(EVENTS, 20.0) is Holds.FALSE
    world.found(Verdict.MISSED, 5, 30.0, Cause.SILENT)
    world.found(Verdict.LATE, 5, 40.0, Cause.STREAM_DOWN)
    assert world.asked(EVENTS, 50.0) is Holds.TRUE


def test_a_stream_that_ends_again_and_again_proves_nothing_complete() -> None:
    """The condition is unknown, not false."""
    world = World()
    world.found(Verdict.WITNESSED, 5, 0.0)
    world.node.disconnects["eof"] = 4
    assert world.asked(EVENTS, 1.0) is Holds.UNKNOWN


def test_ghosts_are_a_problem_if_they_stay() -> None:
    """A runtime that is slow to clean up is none; and once there was one, they must stay away."""
    world = World()
    assert world.asked(STALE, 0.0) is Holds.FALSE
    world.ghosts = 2
    assert world.asked(STALE, 10.0) is Holds.FALSE
    assert world.asked(STALE, 500.0) is Holds.FALSE
    world.ghosts = 0
    assert world.asked(STALE, 520.0) is Holds.FALSE
    world.ghosts = 2
    assert world.asked(STALE, 600.0) is Holds.FALSE
    assert world.asked(STALE, 1100.0) is Holds.FALSE
    assert world.asked(STALE, 1200.0) is Holds.TRUE
    world.ghosts = 0
    assert world.asked(STALE, 1300.0) is Holds.TRUE
    assert world.asked(STALE, 1600.0) is Holds.FALSE


def test_an_exporter_that_was_just_started_does_not_accuse_at_once_either() -> None:
    """What it finds first may be over soon."""
    world = World()
    world.ghosts = 1
    assert world.asked(STALE, 0.0) is Holds.UNKNOWN
    assert world.asked(STALE, 600.0) is Holds.TRUE


@pytest.mark.parametrize(
    ("condition", "blind"),
    [
        (EVENTS, {"stream": StreamState.BACKOFF}),
        (EVENTS, {"stream": StreamState.REFUSED}),
        (STALE, {"kernel": KernelWitness.UNAVAILABLE}),
        (EVENTS, {"answers": False}),
        (STALE, {"answers": False}),
    ],
)
def test_what_cannot_be_told_for_long_is_unknown(
    condition: Condition, blind: dict[str, object]
) -> None:
    """A short outage changes nothing, and the end of a long one is told at once."""
    world = World()
    assert world.asked(condition, 0.0) is Holds.FALSE
    before = {"stream": world.node.stream, "kernel": world.node.kernel, "answers": True}

    def turn(values: dict[str, object]) -> None:
        for name, value in values.items():
            setattr(world if name == "answers" else world.node, name, value)

    turn(blind)
    assert world.asked(condition, 100.0) is Holds.FALSE
    assert world.asked(condition, 390.0) is Holds.FALSE
    turn(before)
    assert world.asked(condition, 395.0) is Holds.FALSE
    turn(blind)
    assert world.asked(condition, 400.0) is Holds.FALSE
    assert world.asked(condition, 700.0) is Holds.UNKNOWN
    turn(before)
    assert world.asked(condition, 701.0) is Holds.FALSE
