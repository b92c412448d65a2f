"""Who is subscribed to: decided by the runtime's profile and the operator alone."""

import pytest
from structlog.typing import EventDict

from exporter.commands.check import examine
from exporter.model.labels import EOF, StreamState
from exporter.runtimes.known import profile_of
from exporter.runtimes.permission import Allowed, EventStream, Refused, ended_at_once, subscription
from exporter.runtimes.runtime import Profile
from exporter.settings.config import Config
from simulator.options import Options, Runtime
from simulator.service import Method
from tests.support.observer import observing
from tests.support.runtimes import simulated
from tests.support.web import cards_now

NONE = profile_of("containerd", "1.6.20")
EXCLUSIVE = profile_of("containerd", "1.7.24")
FRAGILE = profile_of("cri-o", "1.30.4")
BROADCAST = profile_of("containerd", "2.1.9")
UNKNOWN = profile_of("hyperspace", "9.1")
UPGRADE = "upgrade the runtime"
ALONE = (
    f"{UPGRADE}, or, where neither the kubelet nor anything else uses its events, give"
    " --event-stream=always"
)
RISK = f"{UPGRADE}, or take that risk with --event-stream=always"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("profile", "state", "remedy", "renewed"),
    [
        (NONE, StreamState.UNSUPPORTED, UPGRADE, True),
        (EXCLUSIVE, StreamState.REFUSED, ALONE, False),
        (FRAGILE, StreamState.REFUSED, RISK, False),
        (UNKNOWN, StreamState.REFUSED, ALONE, False),
        (BROADCAST, None, "", True),
    ],
)
def test_the_operators_choice_decides_whether_to_subscribe(
    profile: Profile, state: StreamState | None, remedy: str, *, renewed: bool
) -> None:
    """`always` subscribes to each, `never` to none, and `auto` where each subscriber gets all."""
    never, always, auto = (
        subscription(profile, wish)
        for wish in (EventStream.NEVER, EventStream.ALWAYS, EventStream.AUTO)
    )
    assert never == Refused(StreamState.REFUSED, "--event-stream=never: relist only")
    if state is None:
        assert auto == always == Allowed(f"{profile.why}; safe", harmless=True, renewed=renewed)
        return
    assert auto == Refused(state, f"{profile.why}: relist only", remedy)
    assert auto.note == f"{profile.why}: relist only; {remedy}"
    said = f"{profile.why}; subscribed because of --event-stream=always"
    assert always == Allowed(said, harmless=False, renewed=renewed)


@pytest.mark.virtual_time
@pytest.mark.parametrize("wish", EventStream)
@pytest.mark.parametrize(
    ("runtime", "kind"), [(Runtime.CONTAINERD_1, "exclusive"), (Runtime.CONTAINERD_2, "broadcast")]
)
async def test_the_loop_the_check_and_the_page_say_the_same(
    runtime: Runtime, kind: str, wish: EventStream, log: list[EventDict]
) -> None:
    name, _, version = runtime.value.partition("/")
    answer = subscription(profile_of(name, version), wish)
    async with (
        simulated(Options(pods=0, churn=0, runtime=runtime)) as server,
        observing(server.socket, event_stream=wish) as observer,
    ):
        await observer.reaches(
            StreamState.STREAMING if isinstance(answer, Allowed) else answer.state
        )
        await observer.judged()
        labels = (await observer.metrics()).labels("shadow_pleg_runtime_info")
        assert set(labels.values()) == {name, version, "v1", kind}
        assert server.faults.count(Method.GET_CONTAINER_EVENTS) == isinstance(answer, Allowed)
        cards = cards_now(observer.node)
        checked = await examine(Config(runtime_endpoint=server.socket, event_stream=wish))
    (line,) = (each for each in checked if each.subject == "stream")
    assert line.text.partition(": ")[2] == answer.why
    warned = [
        each.get("note")
        for each in log
        if each["log_level"] == "warning" and each["event"].startswith("event stream")
    ]
    if isinstance(answer, Refused):
        assert line.remedy == answer.remedy
        assert answer.note in cards["Event stream"].notes
        assert warned == [answer.note]
    else:
        assert (line.level == "ok") is answer.harmless
        assert (answer.why in cards["Event stream"].notes) is (not answer.harmless)
        assert (answer.why in warned) is (not answer.harmless)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (EOF, StreamState.DISABLED),
        ("unimplemented", StreamState.UNSUPPORTED),
        ("unavailable", StreamState.BACKOFF),
    ],
)
def test_how_a_stream_ends_at_once_says_what_the_runtime_has(
    reason: str, state: StreamState
) -> None:
    assert ended_at_once(reason, "no luck", BROADCAST).state is state
