"""What real runtimes announced and listed, against what the ledger makes of it."""

from collections import Counter
from pathlib import Path

import pytest

from exporter.model.events import EventType
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.labels import Never
from tests import assert_golden
from tests.traces.replaying import Recorded, Scenario, replay, scenarios

pytestmark = pytest.mark.quick

_EXPECTED = Path(__file__).with_name("findings.txt")
_LOSSES = (Verdict.MISSED, Verdict.GAP)

Losses = Counter[str]


def losses(findings: list[Finding]) -> Losses:
    """MISSED and GAP findings in words."""
    return Counter(
        f"{f.container_id} {f.event.label} {f.verdict.value} {f.cause.value if f.cause else ''}"
        for f in findings
        if f.verdict in _LOSSES
    )


def _name(scenario: Scenario) -> str:
    return f"{scenario.runtime} {scenario.name}"


def unprovable(scenario: Scenario, event: Recorded) -> str:
    """Why the loss of that event leaves no trace at all; empty if it must leave one."""
    creation = event.subject == "SB" and event.type is EventType.CREATED
    if creation and Never.SANDBOX_CREATED in scenario.profile.never:
        return "containerd 1.7 announces the creation of a sandbox only sometimes"
    listed = {item.id for item in scenario.steps[event.step].listed}
    if event.type is EventType.STOPPED and not scenario.ran(event.subject):
        return "" if event.subject in listed else "a container that never ran owes no STOPPED"
    return ""


@pytest.mark.parametrize("scenario", scenarios(), ids=_name)
def test_nothing_in_a_complete_recording_is_called_lost(scenario: Scenario) -> None:
    """Each announcement is confirmed or unseen: none is a duplicate, contradicted or late."""
    findings = replay(scenario)
    assert [f for f in findings if f.cause is Cause.SILENT or f.verdict is Verdict.GAP] == []
    found = Counter(finding.verdict for finding in findings)
    assert found[Verdict.CONFIRMED] + found[Verdict.UNSEEN] == len(list(scenario.events))
    stray = (Verdict.DUPLICATE, Verdict.CONTRADICTED, Verdict.LATE, Verdict.BACKLOG)
    assert sum(found[verdict] for verdict in stray) == 0


def test_dropping_one_event_brings_one_finding() -> None:
    """One more loss, of that event, unless nothing can prove it; all as in findings.txt."""
    lines = []
    for scenario in scenarios():
        before = losses(replay(scenario))
        lines.append(f"{_name(scenario)}: {_words(before)}")
        for event in scenario.events:
            after = losses(replay(scenario, without=event))
            words = _words(after - before)
            of_event = f"{event.subject} {event.type.announces.label} "
            assert not before - after
            assert (after - before).total() == (not unprovable(scenario, event))
            assert words.startswith(("nothing", of_event))
            lines.append(f"  without {event} (step {event.step}): {words}")
    assert_golden("\n".join(lines) + "\n", _EXPECTED)


def _words(found: Losses) -> str:
    return ", ".join(sorted(loss.strip() for loss in found.elements())) or "nothing"
