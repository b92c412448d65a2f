"""Each simulated runtime announces and lists what the real one was recorded to."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.cri import runtime_v1_pb2 as cri
from exporter.model.events import EventType
from simulator.channel import StreamEnding
from simulator.options import Options, Runtime
from simulator.runtime import SimulatedRuntime
from tests.traces.replaying import recordings

pytestmark = pytest.mark.quick

SCENARIOS: dict[str, list[str]] = yaml.safe_load(
    Path(__file__).with_name("scenarios.yaml").read_text(encoding="utf-8")
)
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


class Script:
    """Plays one scenario's commands; subjects are the recordings' names."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = SimulatedRuntime(Options(churn=0, runtime=runtime))
        self.ids: dict[str, str] = {}
        self._stream = self.runtime.channel.subscribe(time.time_ns())

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
            self._stream = runtime.channel.subscribe(time.time_ns())
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
        ready = {each.id: each.ready for each in runtime.sandboxes.values()}
        states = {key: "READY" if is_ready else "NOTREADY" for key, is_ready in ready.items()}
        states |= {each.id: each.state.name for each in runtime.containers.values()}
        return {self._subject(key): state for key, state in states.items()}


def comparable(events: list[Event], runtime: Runtime, scenario: str) -> list[Event]:
    """Without what is unreliable: containerd 1.7 rarely announces a sandbox's creation."""
    if runtime is Runtime.CONTAINERD_1:
        events = [one for one in events if one[:2] != ("SB", "CREATED")]
    # Where several containers end at once, their order is that of a hash map.
    return sorted(events, key=str) if scenario.startswith("outage") else events


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
