"""What real runtimes announced and listed, against what the ledger makes of it."""

from collections import Counter

import pytest

from exporter.model.events import EventType, Lifecycle
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.labels import Never
from tests.traces.replaying import RUNTIMES, Recorded, Scenario, replay, scenarios

pytestmark = pytest.mark.quick

_LOSSES = (Verdict.MISSED, Verdict.GAP)
Loss = tuple[str, Lifecycle, str]
# What is lost in all recordings of a runtime: as they are, and, of the event alone, once for each
# that is left out.
AS_RECORDED = {
    "containerd-1.7.24": {"missed by_design": 2, "missed stream_down": 5},
    "containerd-2.1.9": {"missed by_design": 2, "missed stream_down": 5},
    "crio-1.36.3": {"missed by_design": 49, "missed stream_down": 3},
}
LEFT_OUT = {
    "containerd-1.7.24": {"missed shared": 140, "gap shared": 23},
    "containerd-2.1.9": {"missed silent": 140, "gap": 42},
    "crio-1.36.3": {"missed silent": 74, "gap": 22, "missed by_design": 13},
}


def losses(findings: list[Finding]) -> Counter[Loss]:
    """MISSED and GAP findings: of whom, which event, and how it was judged."""
    return Counter(
        (f.container_id, f.event, f"{f.verdict.value} {f.cause.value if f.cause else ''}".strip())
        for f in findings
        if f.verdict in _LOSSES
    )


def unprovable(scenario: Scenario, event: Recorded) -> bool:
    if event.subject == "SB" and event.type is EventType.CREATED:
        # Containerd 1.7 announces it only sometimes.
        return Never.SANDBOX_CREATED in scenario.profile.never
    listed = {item.id for item in scenario.steps[event.step].listed}
    ran = event.subject in listed or scenario.ran(event.subject)
    return event.type is EventType.STOPPED and not ran


@pytest.mark.parametrize("scenario", scenarios(), ids=str)
def test_nothing_in_a_complete_recording_is_called_lost(scenario: Scenario) -> None:
    findings = replay(scenario)
    assert [f for f in findings if f.cause is Cause.SILENT or f.verdict is Verdict.GAP] == []
    found = Counter(finding.verdict for finding in findings)
    assert found[Verdict.CONFIRMED] + found[Verdict.UNSEEN] == len(list(scenario.events))
    stray = (Verdict.DUPLICATE, Verdict.CONTRADICTED, Verdict.LATE, Verdict.BACKLOG)
    assert sum(found[verdict] for verdict in stray) == 0


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_dropping_one_event_brings_one_finding(runtime: str) -> None:
    """One more loss, of that event, unless nothing can prove it."""
    recorded, left_out = Counter[str](), Counter[str]()
    for scenario in (each for each in scenarios() if each.runtime == runtime):
        before = losses(replay(scenario))
        recorded.update(how for _, _, how in before.elements())
        for event in scenario.events:
            after = losses(replay(scenario, without=event))
            assert not before - after
            found = list((after - before).elements())
            assert len(found) == (not unprovable(scenario, event))
            for subject, lifecycle, how in found:
                assert (subject, lifecycle) == (event.subject, event.type.announces)
                assert how.startswith("gap") == is_passed(scenario, event)
                assert event.type is EventType.STOPPED or "by_design" not in how
                left_out[how] += 1
    assert recorded == AS_RECORDED[runtime]
    assert left_out == LEFT_OUT[runtime]


def is_passed(scenario: Scenario, event: Recorded) -> bool:
    """Whether it began something, and the same subject went on before the next list."""
    later = scenario.steps[event.step].events[event.index + 1 :]
    begins = event.type in (EventType.CREATED, EventType.STARTED)
    return begins and any(each.subject == event.subject for each in later)
