"""What the ledger holds is bounded, whatever a runtime sends."""

from collections import Counter

import pytest

from exporter.model.events import Lifecycle
from exporter.model.facts import StreamDown, Unread
from exporter.model.findings import Cause, Finding, Verdict
from exporter.pleg.entry import Entry
from exporter.pleg.memory import REMEMBERED, UNLISTED
from exporter.pleg.steps import StepState
from exporter.pleg.trust import UNREAD
from tests import ROOT
from tests.support.facts import CREATED, EXITED, RUNNING, Play, beat, created, deleted, relist, up


def test_what_is_gone_is_bounded_by_number_too() -> None:
    ids = [str(n) for n in range(REMEMBERED + 1)]
    play = Play(up(), relist(1), relist(2, **dict.fromkeys(ids, RUNNING)), quiet=True)
    assert play.ledger.remembered == REMEMBERED + 1
    play.then(StreamDown(3), relist(10), relist(20))
    assert play.ledger.remembered == REMEMBERED
    assert verdicts(play.then(deleted(ids[-1], 21))) == [Verdict.LATE]
    assert verdicts(play.then(deleted(ids[0], 22))) == []


def test_a_flood_of_unknown_ids_is_dropped_and_counted() -> None:
    """What the lists show does not use up the room for it."""
    node = {f"old-{n}": RUNNING for n in range(100)}
    unlisted = (created(str(n), 2) for n in range(UNLISTED))
    play = Play(up(), relist(1, **node), *unlisted, quiet=True)
    assert play.findings == []
    new = play.then(*(created(f"new-{n}", 3) for n in range(10)))
    assert verdicts(new) == [Verdict.OVERFLOW] * 10
    assert new[0].container_id == "new-0"
    assert play.ledger.remembered == UNLISTED + len(node)
    assert verdicts(play.then(created("0", 4, made=4))) == [Verdict.DUPLICATE]


def test_of_containers_with_unreadable_events_a_bounded_number_is_known() -> None:
    """Beyond that one counts as an event of any container: still no loss of the runtime."""
    play = Play(up(), beat(0.5), relist(1, c1=RUNNING, c2=RUNNING), quiet=True)
    play.then(*(Unread(2, f"old-{n}") for n in range(UNREAD)))
    play.then(relist(3, c1=EXITED, c2=RUNNING), beat(10), relist(11, c1=EXITED, c2=RUNNING))
    assert play.judged == ["c1 ContainerDied missed silent"]
    play.then(Unread(12, "another"), relist(13, c1=EXITED, c2=EXITED), beat(30))
    assert play.then(relist(31, c1=EXITED, c2=EXITED))[0].cause is Cause.DISCARDED


def test_a_dropped_announcement_excuses_a_missed_event() -> None:
    """It might have been the one: the cause is this process, not the runtime."""
    play = Play(up(), relist(1), relist(2, c1=CREATED))
    play.then(*(deleted(str(n), 3) for n in range(UNLISTED)), created("c1-or-so", 4))
    found = play.then(relist(10, c1=CREATED, c2=CREATED), relist(16, c1=CREATED, c2=CREATED))
    missed = [f for f in found if f.verdict is Verdict.MISSED]
    assert [f.cause for f in missed] == [Cause.DISCARDED] * 2


def test_there_is_room_again_when_relists_have_judged_the_flood() -> None:
    """What no list shows is gone: it is settled (and its creation a gap), and kept in bounds."""
    play = Play(up(), relist(1), *(deleted(str(n), 2) for n in range(UNLISTED)), quiet=True)
    assert Counter(verdicts(play.then(relist(10)))) == {
        Verdict.UNSEEN: UNLISTED,
        Verdict.GAP: UNLISTED,
    }
    assert play.ledger.remembered == REMEMBERED
    assert verdicts(play.then(created("new", 11))) == []


def test_the_bounds_are_those_of_the_documentation() -> None:
    text = " ".join((ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8").split())
    assert f"up to {REMEMBERED} gone containers for ten minutes" in text
    assert f"more than {UNLISTED} containers that no list shows" in text


def verdicts(findings: list[Finding]) -> list[Verdict]:
    return [finding.verdict for finding in findings]


def test_an_entry_makes_its_steps_only_when_they_are_read() -> None:
    entry = Entry("c1", excused_up_to=Lifecycle.CHANGED)
    entry.excuse_up_to(Lifecycle.CHANGED)
    assert not entry.has_steps
    with pytest.raises(AttributeError):
        getattr(entry, "other")  # noqa: B009 - mypy would refuse it otherwise
    states = [step.state for step in entry.steps]
    assert states == [StepState.EXCUSED, StepState.OPEN, StepState.OPEN, StepState.OPEN]
    assert entry.has_steps
