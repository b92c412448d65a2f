"""The ledger's memory does not grow with the number of lives."""

import gc
import tracemalloc
from collections.abc import Iterator

from exporter.pleg.ledger import Ledger
from tests.support.facts import (
    CONTAINERD_2,
    EXITED,
    GRACE,
    Given,
    created,
    deleted,
    facts_of,
    relist,
    up,
)

PERIOD = 60.0
LIVES_IN_A_PERIOD = 20


def busy_node(lives: int) -> Iterator[Given]:
    """Lives of one period each, all without STOPPED, one in twenty without DELETED."""
    yield up()
    yield relist(0.5)
    for period in range(lives // LIVES_IN_A_PERIOD):
        at = 1 + period * PERIOD
        ids = [f"{period}-{n}" for n in range(LIVES_IN_A_PERIOD)]
        yield from (created(i, at) for i in ids)
        yield relist(at + 1, **dict.fromkeys(ids, EXITED))
        yield from (deleted(i, at + 2) for i in ids[1:])
        yield relist(at + 3)


def live_through(lives: int) -> Ledger:
    ledger = Ledger(CONTAINERD_2, GRACE)
    for fact in facts_of(busy_node(lives)):
        ledger.judge(fact)
    return ledger


def bytes_left(lives: int) -> int:
    gc.collect()
    tracemalloc.start()
    ledger = live_through(lives)
    gc.collect()
    # Not what other threads, or whatever watches the tests, take meanwhile.
    of_the_core = [tracemalloc.Filter(inclusive=True, filename_pattern="*/exporter/pleg/*")]
    left = tracemalloc.take_snapshot().filter_traces(of_the_core)
    tracemalloc.stop()
    assert ledger.remembered
    return sum(each.size for each in left.statistics("filename"))


def test_ten_times_as_many_lives_leave_no_more_bytes() -> None:
    live_through(500)  # so that whatever watches this test has made room for itself
    few = bytes_left(500)
    assert few > 100_000
    assert bytes_left(5_000) < 1.1 * few
