"""Each simulated runtime announces and lists what the real one was recorded to.

After that, what the recordings do not show: who is sent what, and how a node changes by itself.
"""

import contextlib
import stat
from typing import Any

import pytest

from exporter.cri import runtime_v1_pb2 as cri
from exporter.errors import CriUnavailableError
from exporter.model.events import EventType, Lifecycle, ObjectKind
from simulator.channel import QUEUE, StreamEnding, Subscriber
from simulator.options import Options, Runtime
from simulator.runtime import SimulatedRuntime
from testbed.waiting import until
from tests import table
from tests.support.runtimes import PATIENT, client_of, simulated
from tests.traces.replaying import recordings

SCENARIOS: dict[str, list[str]] = table(__file__, "scenarios.yaml")
# CRI-O refused to create these containers, or its monitor was killed.
NOT_ON_CRIO = {"badcmd", "ctrkill", "killshim"}
CASES = [
    (runtime, scenario)
    for runtime in Runtime
    for scenario in SCENARIOS
    if runtime is not Runtime.CRIO or scenario not in NOT_ON_CRIO
]
# An event as compared: subject, type, and the state that its sandbox had.
Event = tuple[str, str, str | None]


def recorded(runtime: Runtime, scenario: str) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]]
    (steps,) = (
        each["steps"]
        for each in recordings(runtime.value.replace("/", "-").replace("cri-o", "crio"))
        if each["scenario"] == scenario
    )
    return steps


def quiet(runtime: Runtime) -> Options:
    return Options(churn=0, runtime=runtime)


class Script:
    """Plays one scenario's commands; subjects are the recordings' names."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = SimulatedRuntime(quiet(runtime))
        self.ids: dict[str, str] = {}
        self._stream = self.runtime.channel.subscribe()

    def play(self, commands: str) -> None:
        for command in filter(str.strip, commands.split(";")):
            self._do(*command.split())

    def _do(self, verb: str, subject: str = "") -> None:
        runtime, known = self.runtime, self.ids.get(subject, "gone")
        if verb == "down":
            runtime.go_down()
            runtime.channel.end_all(StreamEnding.CLEAN)
        elif verb == "up":
            runtime.up = True
            self._stream = runtime.channel.subscribe()
        elif verb == "run":
            self.ids[subject] = runtime.run_pod("pod")
        elif verb == "create":
            self.ids[subject] = runtime.create(self.ids["SB"], subject)
        elif verb == "kill_sandbox":
            # On CRI-O it has no process of its own.
            if runtime.options.runtime is not Runtime.CRIO:
                runtime.end_sandbox(known)
        elif verb == "forget":
            # What was deleted below the CRI, the CRI removes without a word.
            runtime.up = False
            runtime.remove(known)
            runtime.up = True
        else:
            getattr(runtime, verb)(known)

    def _subject(self, object_id: str) -> str:
        return next(name for name, known in self.ids.items() if known == object_id)

    def heard(self) -> list[Event]:
        states, found = cri.PodSandboxState, []
        for notice in self._stream.unsent():
            event = cri.ContainerEventResponse.FromString(notice.payload)
            state = states.Name(event.pod_sandbox_status.state).removeprefix("SANDBOX_")
            has_state = event.HasField("pod_sandbox_status")
            kind = EventType(event.container_event_type).name
            found.append((self._subject(event.container_id), kind, state if has_state else None))
        return found

    def listed(self) -> dict[str, str]:
        runtime = self.runtime
        names = cri.PodSandboxState
        states = {
            each.id: names.Name(each.state).removeprefix("SANDBOX_")
            for each in runtime.sandboxes.values()
        }
        states |= {each.id: each.state.name for each in runtime.containers.values()}
        return {self._subject(key): state for key, state in states.items()}


def comparable(events: list[Event], runtime: Runtime, scenario: str) -> list[Event]:
    """Without what is unreliable: containerd 1.7 rarely announces a sandbox's creation."""
    if runtime is Runtime.CONTAINERD_1:
        events = [one for one in events if one[:2] != ("SB", "CREATED")]
    # Where several containers end at once, their order is that of a hash map.
    return sorted(events, key=str) if scenario.startswith("outage") else events


@pytest.mark.quick
@pytest.mark.parametrize(
    ("runtime", "scenario"), CASES, ids=lambda case: getattr(case, "value", case)
)
def test_a_scenario_is_announced_and_listed_as_recorded(runtime: Runtime, scenario: str) -> None:
    script = Script(runtime)
    steps = zip(SCENARIOS[scenario], recorded(runtime, scenario), strict=True)
    for commands, step in steps:
        script.play(commands)
        wanted = [(e["subject"], e["type"], e["pod_sandbox_state"]) for e in step["events"]]
        found = (comparable(each, runtime, scenario) for each in (script.heard(), wanted))
        assert next(found) == next(found), commands
        assert script.listed() == step["listed_after"], commands


def heard(stream: Subscriber) -> list[str]:
    return [notice.container_id for notice in stream.unsent()]


@pytest.mark.quick
def test_subscribers_of_a_shared_channel_split_the_announcements() -> None:
    """On containerd 1.7 each goes to one of them, in turn."""
    runtime = SimulatedRuntime(quiet(Runtime.CONTAINERD_1))
    runtime.up = False
    pod = runtime.run_pod("web")
    runtime.up = True
    streams = [runtime.channel.subscribe() for _ in range(2)]
    containers = [runtime.create(pod, str(n)) for n in range(4)]
    assert list(map(heard, streams)) == [containers[::2], containers[1::2]]


@pytest.mark.quick
def test_an_unwatched_crio_forgets_after_its_first_subscriber() -> None:
    """Only the first ever finds something kept."""
    runtime = SimulatedRuntime(quiet(Runtime.CRIO))
    runtime.channel.leave(runtime.channel.subscribe())
    runtime.run_pod("web")
    assert heard(runtime.channel.subscribe()) == []
    assert runtime.losses == {(Lifecycle.STARTED, ObjectKind.SANDBOX): 1}


@pytest.mark.quick
def test_containerd_loses_the_announcement_after_its_last_client_left() -> None:
    """It notices the departure only then; what follows is kept."""
    runtime = SimulatedRuntime(quiet(Runtime.CONTAINERD_2))
    pod = runtime.run_pod("web")
    stream = runtime.channel.subscribe()
    assert set(heard(stream)) == {pod}
    runtime.channel.leave(stream)
    runtime.create(pod, "lost")
    kept = runtime.create(pod, "kept")
    assert heard(runtime.channel.subscribe()) == [kept]
    assert runtime.losses == {(Lifecycle.CHANGED, ObjectKind.CONTAINER): 1}


async def test_each_announcement_that_no_subscriber_gets_is_counted() -> None:
    full, left, dead = (SimulatedRuntime(quiet(Runtime.CONTAINERD_2)) for _ in range(3))
    stream = [each.channel.subscribe() for each in (full, left, dead)][1]
    for runtime, count in ((full, QUEUE), (left, 1), (dead, 1)):
        pod = runtime.run_pod("web")
        for number in range(count):
            runtime.create(pod, str(number))
    left.channel.leave(stream)
    dead.go_down()
    dead.run_pod("more")
    assert [each.losses.total() for each in (full, left, dead)] == [2, 3, 2]


@pytest.mark.parametrize(
    ("runtime", "end"),
    [
        (Runtime.CONTAINERD_2, pytest.raises(CriUnavailableError)),
        (Runtime.CRIO, contextlib.nullcontext()),
    ],
)
async def test_a_restart_ends_streams_its_own_way(
    runtime: Runtime, end: contextlib.AbstractContextManager[object]
) -> None:
    """CRI-O ends them cleanly, containerd with UNAVAILABLE; the socket comes and goes."""
    async with simulated(quiet(runtime)) as server, client_of(server.socket) as client:
        stream = client.subscribe(1, None)
        await until(lambda: server.runtime.channel.subscribers > 0, "it is subscribed")
        await server.go_down()
        with end:
            await stream.read(lambda _: False)
        assert not server.socket.exists()
        with pytest.raises(CriUnavailableError):
            await client.version(PATIENT)
        await server.come_up()
        assert stat.S_ISSOCK(server.socket.stat().st_mode)
