"""Faults of announcements by chance: lost, doubled, delayed, changed in order."""

import pytest

from exporter.pleg.events import EventType, ObjectKind
from simulator.options import Options
from simulator.outbox import Outbox
from simulator.records import Notice

pytestmark = pytest.mark.quick

SECOND_NS = 1_000_000_000


class Sent:
    """An outbox, what came out of it, and what it lost."""

    def __init__(self, options: Options) -> None:
        self.ids: list[str] = []
        self.lost: list[str] = []
        self.outbox = Outbox(
            options,
            lambda notice: self.ids.append(notice.container_id),
            lambda notice: self.lost.append(notice.container_id),
        )

    def post(self, *ids: str, at: int = 0) -> None:
        """Announce a start of each of these."""
        for each in ids:
            notice = Notice(each, EventType.STARTED, ObjectKind.CONTAINER, at)
            self.outbox.post(notice, at)


@pytest.mark.parametrize(("options", "out"), [(Options(), "abc"), (Options(duplicate=1), "aabbcc")])
def test_what_is_not_delayed_goes_out_at_once(options: Options, out: str) -> None:
    """In the order in which it was announced; a doubled one right after the other."""
    sent = Sent(options)
    sent.post("a", "b", "c")
    assert "".join(sent.ids) == out
    assert sent.outbox.due_ns is None


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


def test_what_is_dropped_or_waits_when_the_runtime_dies_is_lost() -> None:
    """Each announcement goes out or is counted."""
    sent = Sent(Options(drop=0.5, reorder=0.5, delay=5.0))
    names = [f"c{n}" for n in range(50)]
    sent.post(*names)
    assert 0 < len(sent.lost) < 50
    assert sent.outbox.due_ns is not None
    sent.outbox.lose_all()
    assert sent.outbox.due_ns is None
    sent.outbox.flush(5 * SECOND_NS)
    assert sorted(sent.ids + sent.lost) == sorted(names)
