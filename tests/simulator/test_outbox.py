"""Faults of announcements: lost, held, doubled, delayed, changed in order."""

from __future__ import annotations

import pytest

from exporter.pleg.events import EventType
from exporter.simulator.manners import MANNERS
from exporter.simulator.options import Options, Runtime
from exporter.simulator.outbox import Outbox
from exporter.simulator.records import Notice
from exporter.simulator.truth import Truth
from tests.support.plain_client import FENCE, eventually, serving, subscribed

pytestmark = pytest.mark.quick

SECOND_NS = 1_000_000_000


class Sent:
    """An outbox, and what came out of it."""

    def __init__(self, options: Options) -> None:
        self.ids: list[str] = []
        truth = Truth(MANNERS[Runtime.CONTAINERD_2])
        self.outbox = Outbox(options, truth, lambda notice: self.ids.append(notice.container_id))

    def post(self, *ids: str, kind: EventType = EventType.STARTED, at: int = 0) -> None:
        """Announce something of each of these."""
        for container_id in ids:
            self.outbox.post(Notice(container_id, kind, at), at)


def test_without_faults_everything_goes_out_at_once() -> None:
    """In the order in which it was announced."""
    sent = Sent(Options())
    sent.post("a", "b", "c")
    assert sent.ids == ["a", "b", "c"]
    assert sent.outbox.due_ns is None


def test_exactly_the_next_announcement_is_dropped() -> None:
    """Of that id and type; of any id when none is named."""
    sent = Sent(Options())
    sent.outbox.drop_next("a", EventType.STOPPED)
    sent.post("a", "b")
    sent.post("a", "b", "a", kind=EventType.STOPPED)
    assert sent.ids == ["a", "b", "b", "a"]
    sent.outbox.drop_next(None, EventType.CREATED)
    sent.post("c", "d", kind=EventType.CREATED)
    assert sent.ids[-1] == "d"
    assert "c" not in sent.ids


def test_a_held_announcement_waits_for_its_release() -> None:
    """Later ones pass it."""
    sent = Sent(Options())
    sent.outbox.hold_next("a", EventType.STARTED)
    sent.post("a", "b")
    assert sent.ids == ["b"]
    sent.outbox.release()
    assert sent.ids == ["b", "a"]


def test_chance_drops_the_same_announcements_for_the_same_seed() -> None:
    """Whatever came before them."""
    names = [f"c{n}" for n in range(200)]
    one, two = Sent(Options(drop=0.5)), Sent(Options(drop=0.5))
    other = Sent(Options(drop=0.5, seed=2))
    one.post(*names)
    two.post(*reversed(names))
    other.post(*names)
    assert one.ids == two.ids[::-1]
    assert 60 < len(one.ids) < 140
    assert one.ids != other.ids


def test_a_doubled_announcement_goes_out_twice() -> None:
    """One right after the other."""
    sent = Sent(Options(duplicate=1.0))
    sent.post("a", "b")
    assert sent.ids == ["a", "a", "b", "b"]


def test_delays_are_bounded_and_keep_the_order() -> None:
    """Nothing overtakes, nothing is later than the longest delay."""
    sent = Sent(Options(delay=2.0))
    names = [f"c{n}" for n in range(50)]
    sent.post(*names)
    assert len(sent.ids) < 50
    sent.outbox.flush(2 * SECOND_NS)
    assert sent.ids == names


def test_one_that_changes_places_goes_out_after_the_next() -> None:
    """Or alone, when none follows within a second."""
    sent = Sent(Options(reorder=1.0))
    sent.post("a", "b")
    assert sent.ids == ["b", "a"]
    sent.post("c")
    assert sent.ids == ["b", "a"]
    sent.outbox.flush(SECOND_NS)
    assert sent.ids == ["b", "a", "c"]


def test_calm_sends_all_that_waits_and_ends_chance() -> None:
    """From then on nothing is lost."""
    sent = Sent(Options(drop=1.0, delay=5.0))
    sent.outbox.hold_next("a", EventType.STARTED)
    sent.post("a", "b")
    sent.outbox.calm()
    sent.post("c")
    assert sent.ids == ["a", "c"]


async def test_delayed_announcements_come_by_themselves() -> None:
    """The server's clockwork sends them, in order."""
    async with serving(Options(churn=0, delay=0.05)) as server, subscribed(server) as stream:
        server.runtime.run_pod("web")
        await eventually(lambda: server.runtime.outbox.due_ns is None)
        server.announce_raw(FENCE)
        assert [event.type for event in await stream.until("fence")] == ["CREATED", "STARTED"]
