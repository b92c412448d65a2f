"""Each simulated runtime announces and lists what the real one was recorded to."""

from collections.abc import Iterator
from typing import Any

import pytest

from exporter.cri import runtime_v1_pb2 as cri
from exporter.model.events import EventType, ListedState
from simulator.options import Options, Runtime
from tests.support.runtimes import Stream, simulated, states_of, subscribed
from tests.support.scripted_runtime import ScriptedServer
from tests.traces.replaying import recordings

pytestmark = pytest.mark.virtual_time

RUN = "run SB; create C; start C"
CLEAN = "stop_pod SB; remove_pod SB"
OUTAGE = "run SB; create C; start C; create K; create N; start K"
# What to do to the simulated runtime: `|` between the recorded steps.
SCENARIOS = {
    "normal": "run SB | create C | start C | stop C | remove C | stop_pod SB | remove_pod SB",
    "selfexit": f"run SB; create C | start C; exit C | {CLEAN}",
    "sigkill": f"{RUN} | exit C |  | {CLEAN}",
    "oom": f"run SB; create C | start C; exit C |  | {CLEAN}",
    "badcmd": f"run SB; create C | fail_start C |  | remove C | {CLEAN}",
    "neverstarted": "run SB; create C | remove C | create D | stop_pod SB | remove_pod SB",
    "forceremove": f"{RUN} | remove C | create D; start D | remove_pod SB | {CLEAN}",
    "stopsandbox": f"{RUN} | stop_pod SB | stop_pod SB | "
    "stop C | remove_pod SB | remove_pod SB | remove C",
    "restart": f"{RUN}; exit C | create C1 | start C1 | remove C | {CLEAN}",
    "update": f"{RUN} |  |  |  | {CLEAN}",
    "killpause": f"{RUN} | kill_sandbox SB |  | stop_pod SB | remove_pod SB",
    "killshim": f"{RUN} | kill_sandbox SB; exit C |  |  | stop_pod SB | remove_pod SB",
    "outage_live": f"{OUTAGE} | down; up |  | stop C | {CLEAN}",
    "outage_die": f"{OUTAGE} | down; exit K; up |  | stop C | {CLEAN}",
    "outage_pause": f"{OUTAGE} | down; kill_sandbox SB; up |  | stop C | {CLEAN}",
    "outage_die_late": f"{OUTAGE} | down; exit K; kill_sandbox SB; up |  | stop C | {CLEAN}",
    "outage_kill9": f"{OUTAGE} | down; exit K; up |  | stop C | {CLEAN}",
    "ctrkill": f"{RUN} | exit C | delete_below C |  | remove C | create D; start D | "
    " |  | exit D | kill_sandbox SB |  | stop_pod SB | remove_pod SB",
    "failsandbox": f" | run SB |  | {CLEAN}",
}
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
    """The recorded steps of a scenario."""
    steps: list[dict[str, Any]]
    (steps,) = (
        each["steps"]
        for each in recordings(runtime.value.replace("/", "-").replace("cri-o", "crio"))
        if each["scenario"] == scenario
    )
    return steps


class Script:
    """Plays one scenario's commands; subjects are the recordings' names."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.ids: dict[str, str] = {}

    async def play(self, commands: str) -> bool:
        """Play the commands of one step; whether the runtime was restarted."""
        restarted = False
        for command in filter(str.strip, commands.split(";")):
            restarted |= await self._do(*command.split())
        return restarted

    async def _do(self, verb: str, subject: str = "") -> bool:
        runtime = self.server.runtime
        if verb == "down":
            await self.server.go_down()
        elif verb == "up":
            await self.server.come_up()
        elif verb == "run":
            self.ids[subject] = runtime.run_pod("pod")
        elif verb == "create":
            self.ids[subject] = runtime.create(self.ids["SB"], subject)
        else:
            getattr(runtime, verb)(self.ids.get(subject, "gone"))
        return verb == "up"

    def subject(self, object_id: str) -> str:
        """What the recording calls that id."""
        return next(name for name, known in self.ids.items() if known == object_id)


async def heard(script: Script, stream: Stream) -> list[Event]:
    """Everything that was announced up to now."""
    states = cri.PodSandboxState
    return [
        (
            script.subject(event.container_id),
            EventType(event.container_event_type).name,
            states.Name(event.pod_sandbox_status.state).removeprefix("SANDBOX_")
            if event.HasField("pod_sandbox_status")
            else None,
        )
        for event in await stream.rest()
    ]


async def listed(script: Script) -> dict[str, str]:
    """What the lists show now; a sandbox is READY or NOTREADY."""
    named = {script.subject(key): state for key, state in (await states_of(script.server)).items()}
    ready = {ListedState.RUNNING: "READY", ListedState.EXITED: "NOTREADY"}
    return {key: ready[s] if key == "SB" else s.name for key, s in named.items()}


def comparable(events: list[Event], runtime: Runtime, scenario: str) -> list[Event]:
    """Without what is unreliable: containerd 1.7 rarely announces a sandbox's creation."""
    if runtime is Runtime.CONTAINERD_1:
        events = [one for one in events if one[:2] != ("SB", "CREATED")]
    # Where several containers end at once, their order is that of a hash map.
    return sorted(events, key=str) if scenario.startswith("outage") else events


@pytest.mark.parametrize(
    ("runtime", "scenario"), CASES, ids=lambda case: getattr(case, "value", case)
)
async def test_a_scenario_is_announced_and_listed_as_recorded(
    runtime: Runtime, scenario: str
) -> None:
    """The same events with the same sandbox states, and the same lists, after every step."""
    steps = zip(SCENARIOS[scenario].split("|"), recorded(runtime, scenario), strict=True)
    async with simulated(Options(churn=0, runtime=runtime)) as server:
        script = Script(server)
        while await compare(script, steps, (runtime, scenario)):
            pass


async def compare(
    script: Script, steps: Iterator[tuple[str, dict[str, Any]]], case: tuple[Runtime, str]
) -> bool:
    """Compare on one stream; whether a restart ended it before the last step."""
    async with subscribed(script.server) as stream:
        for commands, step in steps:
            restarted = await script.play(commands)
            wanted = [(e["subject"], e["type"], e["pod_sandbox_state"]) for e in step["events"]]
            events = [] if restarted else await heard(script, stream)
            assert comparable(events, *case) == comparable(wanted, *case), commands
            assert await listed(script) == step["listed_after"], commands
            if restarted:
                return True
    return False
