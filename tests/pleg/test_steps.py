"""A relist taken in steps: others act in between, and the verdicts stay the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from exporter.pleg.events import Inquiry, Relist
from exporter.pleg.facts import Discarded, Inquired, StreamDown, StreamRefused, StreamUp
from exporter.pleg.findings import Cause, Finding, Verdict
from exporter.pleg.ledger import Ledger
from exporter.pleg.profiles import profile_of
from tests.support.facts import CREATED, EXITED, RUNNING, relist, started, wall_ns

CONTAINERD = profile_of("containerd", "2.1.9")
NAMES = [f"c{number}" for number in range(6)]


def watching() -> Ledger:
    """Six containers that were created in the baseline, and are listed running since."""
    ledger = Ledger(CONTAINERD, 5.0)
    ledger.take(StreamUp(0.0, wall_ns(0)))
    ledger.take(relist(1, **dict.fromkeys(NAMES, CREATED)))
    ledger.take(relist(2, **dict.fromkeys(NAMES, RUNNING)))
    assert ledger.unresolved == len(NAMES)
    return ledger


def interrupted(ledger: Ledger, taken: Relist, at: int, act: Callable[[], object]) -> list[Finding]:
    """What the relist brought, with something happening after so many steps."""
    findings: list[Finding] = []
    for number, _ in enumerate(ledger.relisting(taken, findings)):
        if number == at:
            act()
    return findings


def missed(findings: Iterable[Finding]) -> list[Cause | None]:
    """The causes of what was missed."""
    return [finding.cause for finding in findings if finding.verdict is Verdict.MISSED]


SETTLING = relist(20, **dict.fromkeys(NAMES, RUNNING))
PROVING = relist(20, **dict.fromkeys(NAMES, EXITED))
STEPS = range(12)


@pytest.mark.parametrize("at", STEPS)
def test_a_stream_that_is_given_up_in_between_owes_nothing_more(at: int) -> None:
    """Whatever was not judged by then is not judged at all, and nothing breaks."""
    ledger = watching()
    findings = interrupted(ledger, SETTLING, at, lambda: ledger.take(StreamRefused(20.5)))
    assert len(missed(findings)) == max(0, at + 1 - len(NAMES))
    assert ledger.unresolved == 0
    assert ledger.take(relist(40, **dict.fromkeys(NAMES, RUNNING))).findings == ()


@pytest.mark.parametrize("at", STEPS)
def test_an_outage_in_between_excuses_what_is_proven_by_that_relist(at: int) -> None:
    """Before or after the step that proved it."""
    ledger = watching()
    interrupted(ledger, PROVING, at, lambda: ledger.take(StreamDown(20.5)))
    findings = ledger.take(relist(40, **dict.fromkeys(NAMES, EXITED))).findings
    assert missed(findings) == [Cause.STREAM_DOWN] * len(NAMES)


@pytest.mark.parametrize("at", STEPS)
def test_a_discard_in_between_does_too(at: int) -> None:
    """It may have been any of them."""
    ledger = watching()
    interrupted(ledger, PROVING, at, lambda: ledger.take(Discarded(20.5)))
    findings = ledger.take(relist(40, **dict.fromkeys(NAMES, EXITED))).findings
    assert missed(findings) == [Cause.DISCARDED] * len(NAMES)


@pytest.mark.parametrize("at", STEPS)
def test_an_answer_in_between_is_taken(at: int) -> None:
    """For the next relist at the latest."""
    ledger = watching()
    act = lambda: ledger.take(Inquired(20.5, "c3", Inquiry.STARTED))  # noqa: E731 - one line
    assert len(missed(interrupted(ledger, SETTLING, at, act))) == len(NAMES)
    assert ledger.unresolved == 0


def test_what_comes_after_the_last_step_is_late() -> None:
    """The relist is judged as of one moment."""
    ledger = watching()
    assert len(missed(interrupted(ledger, SETTLING, 99, lambda: None))) == len(NAMES)
    late = ledger.take(started("c1", 21)._replace(stream=1)).findings
    assert [finding.verdict for finding in late] == [Verdict.LATE]
