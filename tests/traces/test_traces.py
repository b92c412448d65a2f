"""What real runtimes announced and listed, with a loss or a flaw or without, and the verdicts."""

from collections import Counter
from collections.abc import Iterator

import pytest

from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.decode import Decoder
from exporter.model.events import EventType, Lifecycle
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.labels import Flaw, Never
from exporter.pleg.ledger import Ledger
from simulator.runtime import spoil
from tests.support.cri_messages import METADATA, NOW_NS, SECOND_NS
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
    "crio-1.36.3": {"missed silent": 73, "gap": 22, "missed by_design": 14},
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
                never_ran = event.type is EventType.DELETED and not scenario.ran(subject)
                assert event.type is EventType.STOPPED or never_ran or "by_design" not in how
                left_out[how] += 1
    assert recorded == AS_RECORDED[runtime]
    assert left_out == LEFT_OUT[runtime]


def is_passed(scenario: Scenario, event: Recorded) -> bool:
    """Whether it began something, and the same subject went on before the next list."""
    later = scenario.steps[event.step].events[event.index + 1 :]
    begins = event.type in (EventType.CREATED, EventType.STARTED)
    return begins and any(each.subject == event.subject for each in later)


# --- flaws --------------------------------------------------------------------

CREATED, STARTED, STOPPED, DELETED = EventType
STATE = {CREATED: pb.CONTAINER_CREATED, STARTED: pb.CONTAINER_RUNNING, STOPPED: pb.CONTAINER_EXITED}
NORMAL = {each.runtime: each for each in scenarios() if each.name == "normal"}
# A start is stamped up to so much later than a short life has ended; that is no flaw.
EARLY_NS = 816_000_000
Found = list[tuple[str, Lifecycle, str]]
Message = pb.ContainerEventResponse


def messages(scenario: Scenario) -> Iterator[tuple[Recorded, Message]]:
    """Each event, a second after the other, with the statuses of the pod's containers then."""
    statuses: dict[str, pb.ContainerStatus] = {}
    for number, event in enumerate(scenario.events):
        made, subject = NOW_NS + number * SECOND_NS, event.subject
        if event.type is DELETED:
            statuses.pop(subject, None)
        elif subject != "SB":
            status = statuses.setdefault(subject, pb.ContainerStatus(id=subject))
            status.state = STATE[event.type]
            if event.type is STARTED:
                status.started_at = made
            elif event.type is STOPPED and status.started_at:
                status.finished_at = status.started_at - EARLY_NS
        pod = pb.PodSandboxStatus(id="SB", metadata=METADATA)
        yield (
            event,
            Message(
                container_id=subject,
                container_event_type=int(event.type),  # type: ignore[arg-type] # its number
                created_at=made,
                pod_sandbox_status=pod if event.with_status else None,
                containers_statuses=statuses.values(),
            ),
        )


def flaws(runtime: str, story: list[tuple[Recorded, Message]]) -> Found:
    ledger, decoder, found = Ledger(NORMAL[runtime].profile, 5.0), Decoder(), Found()
    for number, (_, message) in enumerate(story):
        wall_ns = NOW_NS + number * SECOND_NS
        decoded = decoder.event(message.SerializeToString(), float(number), wall_ns, stream=1)
        assert isinstance(decoded, tuple)
        findings = ledger.judge(decoded[0]).findings
        flawed = (each for each in findings if each.verdict is Verdict.FLAWED and each.cause)
        found += [(f.container_id, f.event, f.cause.value) for f in flawed if f.cause]
    return found


def by_design(runtime: str) -> Found:
    """Containerd 1.7 sends the DELETED of a sandbox without its status (containerd#12390)."""
    return [("SB", Lifecycle.REMOVED, "no_pod")] if runtime == "containerd-1.7.24" else []


@pytest.mark.parametrize("scenario", scenarios(), ids=str)
def test_what_was_recorded_has_no_flaw_but_a_known_one(scenario: Scenario) -> None:
    """Nor have short lives whose start is stamped after their end."""
    found = flaws(scenario.runtime, list(messages(scenario)))
    assert [each for each in found if each not in by_design(scenario.runtime)] == []


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("what", EventType)
@pytest.mark.parametrize("flaw", Flaw)
def test_one_flaw_is_found_and_no_other(runtime: str, what: EventType, flaw: Flaw) -> None:
    """In each type of event that can have it; DELETED owes no status, and nothing follows it."""
    story = list(messages(NORMAL[runtime]))
    place = next(
        n for n, (event, _) in enumerate(story) if event.subject == "C" and event.type == what
    )
    wrong = what in {STARTED, STOPPED} or flaw is not Flaw.WRONG_STATE
    has_status = flaw in {Flaw.NO_POD, Flaw.EMPTY_STATUS} or what is not DELETED
    if flaw is Flaw.OUT_OF_ORDER and has_status:
        following = next(n for n in range(place + 1, len(story)) if story[n][0].subject == "C")
        story.insert(following, story.pop(place))
    elif wrong and has_status:
        spoil(story[place][1], flaw)
    expected = [("C", what.announces, flaw.value)] if wrong and has_status else []
    assert flaws(runtime, story) == expected + by_design(runtime)
