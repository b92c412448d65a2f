"""What real runtimes announced, with a flaw in one of the messages: it is found, and no other."""

from collections.abc import Iterator

import pytest

from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.decode import Decoder
from exporter.model.events import EventType, Lifecycle
from exporter.model.findings import Verdict
from exporter.model.labels import Flaw
from exporter.pleg.ledger import Ledger
from simulator.runtime import spoil
from tests.support.cri_messages import METADATA, NOW_NS, SECOND_NS
from tests.traces.replaying import RUNTIMES, Recorded, Scenario, scenarios

pytestmark = pytest.mark.quick

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
