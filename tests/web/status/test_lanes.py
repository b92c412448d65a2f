"""The lanes of the status page: each bar in its place, and totals that agree with the headline."""

import re

import pytest

from exporter.model.events import Announcement, EventType, ObjectKind
from exporter.model.facts import CgroupsRead, StreamDown, StreamUp
from exporter.model.findings import NOTHING, Cause, Finding, Outcome, Verdict
from exporter.node.history import SECONDS, SLOTS, History
from exporter.node.state import Node
from exporter.web.status_page import Lane, lanes_of
from tests.support.facts import found, populated

pytestmark = pytest.mark.quick

NOW = SLOTS * SECONDS - 1
BAR = re.compile(r"M(\d+) 20v-(\d+)h0\.8V20z")
SEEN, GAP = found(Verdict.WITNESSED), found(Verdict.GAP)
SILENT, STALLED, DOWN, OURS, SHARED, DESIGN = (found(Verdict.MISSED, cause) for cause in Cause)


class Drawn:
    """A history that is drawn at the end of its quarter of an hour."""

    def __init__(self) -> None:
        self.node = Node()
        self.history = History(self.node)
        self.history.took(StreamUp(0.0, 7), NOTHING)

    def find(self, slot: int, *findings: Finding) -> None:
        """These findings in that slot."""
        self.history.took(StreamUp(slot * SECONDS + 1, 7), Outcome(findings))

    def hear(self, slot: int, number: int) -> None:
        """That many events in that slot."""
        for _ in range(number):
            self.history.took(Announcement("c1", EventType.STARTED, slot * SECONDS + 2, 1), NOTHING)
            self.node.received[EventType.STARTED, ObjectKind.CONTAINER] += 1

    def lanes(self, now: float = NOW) -> dict[str, Lane]:
        """By name."""
        return {each.name: each for each in lanes_of(self.history, self.history.account(now), now)}


def bars(lane: Lane) -> dict[int, int]:
    """Height by place."""
    assert BAR.sub("", lane.bars) == ""
    return {int(place): int(height) for place, height in BAR.findall(lane.bars)}


def test_witnesses_share_one_scale() -> None:
    """The longest bar of all is as tall as there is room for, and one event can be seen."""
    drawn = Drawn()
    drawn.find(0, *[SEEN] * 20)
    drawn.hear(0, 1)
    drawn.hear(89, 40)
    lanes = drawn.lanes()
    assert "kernel" not in lanes
    assert bars(lanes["relist"]) == {0: 10}
    assert bars(lanes["stream"]) == {0: 1, 89: 20}
    assert [lanes[name].total for name in ("relist", "stream")] == [20, 41]


def test_the_kernel_is_a_lane_where_it_shows_something() -> None:
    """What the first read shows was there before."""
    drawn = Drawn()
    drawn.history.took(CgroupsRead(1.0), NOTHING)
    for _ in range(5):
        drawn.history.took(populated("c1", 895.0), NOTHING)
    assert (bars(drawn.lanes()["kernel"]), drawn.lanes()["kernel"].total) == ({89: 20}, 5)


def test_losses_and_what_the_exporter_missed_are_lanes_of_their_own() -> None:
    """A gap is a loss; what a runtime never announces is not, nor what came after all."""
    drawn = Drawn()
    drawn.find(0, SEEN, SILENT, STALLED, GAP)
    drawn.find(45, DOWN)
    drawn.find(46, OURS, SHARED)
    drawn.find(60, DESIGN, found(Verdict.LATE, Cause.STALLED))
    lanes = drawn.lanes()
    assert (bars(lanes["lost"]), lanes["lost"].total) == ({0: 20}, 2)
    assert (bars(lanes["missed here"]), lanes["missed here"].total) == ({45: 20, 46: 20}, 3)


def test_the_stream_is_down_where_it_was_for_a_moment() -> None:
    """A part of ten seconds counts as all of them."""
    drawn = Drawn()
    drawn.history.took(StreamDown(451.0), NOTHING)
    drawn.history.took(StreamUp(471.0, 7), NOTHING)
    assert bars(drawn.lanes()["stream down"]) == {45: 20, 46: 20, 47: 20}


def test_a_young_process_begins_at_the_right_end() -> None:
    """Now is always at the same place."""
    drawn = Drawn()
    drawn.hear(0, 5)
    assert bars(drawn.lanes(5.0)["stream"]) == {89: 20}
