"""How many Python calls the two hot paths take: cost, in a unit that no busy machine changes.

Calls of this package's functions count, also of those that dataclasses and named tuples generate,
and each time a generator is resumed; calls of libraries do not.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
import structlog

import exporter
from exporter.model.events import Listed, ListedState, ObjectKind
from exporter.model.facts import ProfileChosen, Relist
from exporter.model.findings import Verdict
from tests.support.cri_messages import SHOP, event
from tests.support.facts import RUNNING, beat, facts_of, relist, up
from tests.support.stage import Stage

pytestmark = pytest.mark.quick

PACKAGE = str(Path(exporter.__file__).parent)


def calls_of(act: Callable[[], object]) -> Counter[str]:
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _arg: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith((PACKAGE, "<string>")):
            calls[f"{Path(code.co_filename).stem} {code.co_name}"] += 1

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


def test_a_relist_that_settles_a_miss_takes_at_most_150_calls() -> None:
    """From the decoded relist to the finding counted, logged, in the history, and made a case."""
    stage, known = Stage(), (ProfileChosen(0.0, "containerd", "1.7.24"), up())
    *before, settling = facts_of((*known, relist(1), relist(2, c1=RUNNING), relist(20, c1=RUNNING)))
    for fact in before:
        stage.chronicle.record(fact)
    with structlog.testing.capture_logs() as log:
        calls = calls_of(lambda: stage.chronicle.record(settling))
    assert stage.node.tally.total(Verdict.MISSED) == len(stage.cases.newest) == len(log) == 1
    assert calls.total() <= 150, calls


@pytest.mark.virtual_time
async def test_an_event_that_confirms_takes_at_most_25_calls() -> None:
    """A STARTED for which the ledger waits: from the queue to the finding, counted and kept."""
    stage, at = Stage(), time.monotonic()
    for fact in facts_of((up(at - 3), beat(at - 2.5), relist(at - 2))):
        stage.chronicle.record(fact)
    running = Listed("c1", ObjectKind.CONTAINER, ListedState.RUNNING, "p1", "app", SHOP)
    stage.chronicle.record(Relist(at - 1, at - 1, 1, (running,), ()))
    intake = stage.daemon.intake
    intake.offer(event(container_id="c0", created_at=time.time_ns()), 1)
    intake.feed()
    intake.offer(event(created_at=time.time_ns()), 1)
    calls = calls_of(intake.feed)
    assert stage.node.tally.total(Verdict.CONFIRMED) == 1
    assert calls.total() <= 25, calls
