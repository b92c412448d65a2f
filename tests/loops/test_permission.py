"""Who is subscribed to: decided by the runtime's profile and the operator alone."""

from itertools import product

import pytest
from structlog.typing import EventDict

from exporter.cri.client import CriClient
from exporter.loops.permission import objection_to
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import Gate, StreamState
from exporter.pleg.profiles import Profile, profile_of
from exporter.settings.config import EventStream
from simulator.options import Options, Runtime
from simulator.service import Method
from testbed.waiting import until
from tests.support.kubelets import KubeletPage, kubelet
from tests.support.observer import observing, tasks
from tests.support.runtimes import running_container, simulated

NONE = profile_of("containerd", "1.6.20")
EXCLUSIVE = profile_of("containerd", "1.7.24")
FRAGILE = profile_of("cri-o", "1.30.4")
BROADCAST = profile_of("containerd", "2.1.9")
UNKNOWN = profile_of("hyperspace", "9.1")
UNEXPLAINED = Verdict.GAP, None
UPGRADE = "upgrade the runtime"
ALONE = (
    f"{UPGRADE}, or, where neither the kubelet nor anything else uses its events, give"
    " --event-stream=always"
)
RISK = f"{UPGRADE}, or take that risk with --event-stream=always"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("profile", "state", "remedy"),
    [
        (NONE, StreamState.UNSUPPORTED, UPGRADE),
        (EXCLUSIVE, StreamState.REFUSED, ALONE),
        (FRAGILE, StreamState.REFUSED, RISK),
        (UNKNOWN, StreamState.REFUSED, ALONE),
    ],
)
def test_auto_subscribes_to_nothing_that_may_be_harmed(
    profile: Profile, state: StreamState, remedy: str
) -> None:
    """The note is why and what to do, in one sentence."""
    objection = objection_to(profile, EventStream.AUTO)
    assert objection is not None
    assert (objection.state, objection.remedy) == (state, remedy)
    assert objection.note == f"{profile.why}: relist only; {remedy}"


@pytest.mark.quick
def test_otherwise_the_operator_decides() -> None:
    """`always` subscribes to each, `never` to none, and `auto` where each subscriber gets all."""
    for profile, wish in product(
        (NONE, EXCLUSIVE, FRAGILE, BROADCAST, UNKNOWN), (EventStream.ALWAYS, EventStream.NEVER)
    ):
        objection = objection_to(profile, wish)
        if wish is EventStream.ALWAYS:
            assert objection is None
        else:
            assert objection is not None
            assert objection.state is StreamState.REFUSED
            assert objection.note == "--event-stream=never: relist only"
    assert objection_to(BROADCAST, EventStream.AUTO) is None


@pytest.mark.virtual_time
@pytest.mark.parametrize("wish", EventStream)
async def test_a_kubelet_that_leaves_an_exclusive_stream_grants_nothing(
    wish: EventStream, log: list[EventDict]
) -> None:
    """Another subscriber may be there; only `always` subscribes, and it says what that costs."""
    always = wish is EventStream.ALWAYS
    async with (
        simulated(Options(pods=0, churn=0, runtime=Runtime.CONTAINERD_1)) as runtime,
        kubelet(KubeletPage(gate=False)) as fake,
        observing(
            runtime.socket,
            kubelet_metrics_url=fake.url,
            kubelet_metrics_period=0.05,
            event_stream=wish,
        ) as observer,
    ):
        known = observer.node.kubelet
        assert known is not None
        await until(lambda: known.reading is not None, "the kubelet has answered")
        assert known.reading is not None
        assert known.reading.gate is Gate.OFF
        await observer.reaches(StreamState.STREAMING if always else StreamState.REFUSED)
        await observer.judged()
        assert runtime.faults.count(Method.GET_CONTAINER_EVENTS) == always
    told = [
        line["log_level"]
        for line in log
        if "taken from the kubelet and any other subscriber" in line["event"]
    ]
    assert told == ["warning"] * always


@pytest.mark.virtual_time
async def test_what_another_subscriber_of_an_exclusive_stream_takes_is_shared() -> None:
    """Nobody lost it: neither `silent`, nor a gap that nothing explains."""
    async with (
        simulated(Options(pods=0, churn=0, runtime=Runtime.CONTAINERD_1)) as runtime,
        observing(runtime.socket, event_stream=EventStream.ALWAYS) as observer,
    ):
        await observer.connected()
        other = CriClient(runtime.socket)
        taken: list[bytes] = []
        async with tasks(other.subscribe(1, None).read(taken.append)):
            await until(lambda: runtime.runtime.channel.subscribers == 2, "another one")
            for number in range(20):
                sandbox, _ = running_container(runtime, f"web-{number}")
                await observer.relisted()
                runtime.runtime.remove_pod(sandbox)
            await observer.judged()
        await other.close()
        received = observer.node.received.total()
        tally = observer.node.tally
        gaps = sum(n for (what, _, _, why), n in tally.counts.items() if (what, why) == UNEXPLAINED)
    assert received > 10
    assert len(taken) > 10
    assert tally.total(Verdict.MISSED, Cause.SHARED) > 10
    assert tally.total(Verdict.MISSED, Cause.SILENT) == gaps == 0
