"""The command on real containerds: what is known is breached, and nothing is left."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from conformance.history import MAIN, History, read
from conformance.parts import NO_TIME
from conformance.stage import Stage
from exporter.cri import runtime_v1_pb2 as pb
from testbed.containerd import Containerd
from testbed.pods import IMAGE, Pods
from testbed.waiting import until
from tests.support.commands import Running, run_here

# The full form has 600 s to begin its parts.
pytestmark = pytest.mark.timeout(1200)

# Other tests run beside, with pods and kubelets of their own.
FLAGS = ("conformance", f"--image={IMAGE}", "--output=json", "--beside-kubelet")
SHORT = ("--seconds=15", "--only=order,payload,lists,announced,exit-code,exec")
# What a containerd here cannot show.
NEVER_SHOWN = {"switched-off"}


def at(containerd: Containerd) -> str:
    return f"--runtime-endpoint=unix://{containerd.socket}"


@asynccontextmanager
async def judging(containerd: Containerd, *flags: str) -> AsyncIterator[Running]:
    """The command on that runtime, on which it leaves nothing."""
    async with Running(*FLAGS, at(containerd), *flags) as command:
        yield command
    async with containerd.pods() as cri:
        assert (await cri.sandboxes(), await cri.containers()) == ({}, {})


async def judged(command: Running) -> dict[str, dict[str, Any]]:
    """What it says of each property, once it has ended well."""
    outcome = await command.ended(1000)
    assert outcome.code < 2, outcome
    rows = json.loads(outcome.out)["properties"]
    assert outcome.code == 0, [row for row in rows if row["outcome"] in {"fail", "warn"}]
    return {row["name"]: row for row in rows}


async def at_work(cri: Pods) -> None:
    """The command has made pods, and goes on."""

    async def works() -> bool:
        return len(await cri.sandboxes()) > 5

    await until(works, "it has made pods", seconds=60)


async def test_a_short_run_breaches_what_is_known(
    containerd_21: Containerd, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And its history is a recording, of which a ledger says the same: nothing is lost."""
    file = folder / "history.jsonl.gz"
    flags = (*SHORT, "--expect=containerd-2.1", f"--history={file}")
    async with judging(containerd_21, *flags) as command:
        rows = await judged(command)
    assert rows["announced"]["outcome"] == "pass"
    assert rows["list-follows"]["cases"] > 100
    replayed = run_here(capsys, "replay", str(file), "--output-format=json")
    found = json.loads(replayed.out)
    assert (replayed.code, found["damage"]) == (0, None)
    assert found["live_verdicts"] == found["same_verdicts"] > 100
    assert not [each for each in found["losses"] if each["verdict"] in {"missed", "gap"}]


@pytest.mark.soak
async def test_a_full_run_breaches_what_is_known(
    containerd_with_events: Containerd, folder: Path
) -> None:
    """Beside a restart, and with another handler; all is judged that can be."""
    containerd, version = containerd_with_events, containerd_with_events.version
    asked, done = folder / "asked", folder / "done"
    flags = (
        *("--seconds=600", f"--expect=containerd-{version}", "--runtime-handler=runc"),
        f"--restart-command=touch {asked}; while [ ! -e {done} ]; do sleep 0.05; done",
    )
    async with judging(containerd, *flags) as command:
        await until(asked.exists, "it restarts the runtime", seconds=700)
        await containerd.restart()
        done.touch()
        rows = await judged(command)
    assert {name for name, row in rows.items() if row["outcome"] == "skip"} == NEVER_SHOWN


async def test_a_signal_ends_it_and_its_pods(containerd_21: Containerd, folder: Path) -> None:
    """And it says what it waits for; what was heard is kept. No second run disturbs it before."""
    flags = ("--seconds=60", f"--history={folder / 'events'}")
    async with judging(containerd_21, *flags) as command, containerd_21.pods() as cri:
        await at_work(cri)
        async with Running(*FLAGS, at(containerd_21)) as second:
            said = (await second.ended()).complaint(2)
        assert said == f"another run tests unix://{containerd_21.socket}: wait for its end"
        assert await cri.sandboxes()
        outcome = await command.stop()
    said = "shadow-pleg: stopped by a signal; the pods that it made are removed"
    assert (outcome.code, outcome.err.splitlines()[-1]) == (2, said)
    assert "\nstopping: it waits for its calls" in outcome.err
    assert read(folder / "events").cases


async def test_a_second_signal_waits_for_nothing(containerd_21: Containerd) -> None:
    """While the runtime hangs. What a cancelled start leaves may stay (containerd#11037).

    Not when the runtime is gone: each cgroup would cost every later test's relists.
    """
    async with containerd_21.pods() as cri, Running(*FLAGS, at(containerd_21)) as command:
        await at_work(cri)
        pods = await cri.sandboxes()
        os.kill(containerd_21.pid, signal.SIGSTOP)
        command.process.send_signal(signal.SIGINT)
        await until(lambda: "stopping: " in command.log, "it has noticed the first")
        outcome = await command.stop(signal.SIGINT)
        os.kill(containerd_21.pid, signal.SIGCONT)
    assert outcome.code == 2
    assert outcome.err.splitlines()[-2:] == [
        "pods may be left, run it again: another signal came",
        "shadow-pleg: stopped by a signal",
    ]
    await containerd_21.close()
    tops = [containerd_21.cgroups, *containerd_21.cgroups.glob("*")]
    assert not any((top / "k8s.io" / pod).exists() for top in tops for pod in pods)


async def test_a_run_without_time_says_so(containerd_21: Containerd) -> None:
    """And what it judges, it judges in full."""
    flags = ("--only=frozen-blocks,unsubscribed", "--seconds=5", "--expect=containerd-2.1")
    async with judging(containerd_21, *flags) as command:
        rows = await judged(command)
        last = command.log.splitlines()[-1]
    # On a busy machine there is no time for either.
    short = [name for name, row in rows.items() if row["outcome"] == "skip"]
    assert last == f"not judged in full: {', '.join(short)}: {NO_TIME}"
    assert rows["unsubscribed"]["said"] == NO_TIME
    assert rows["frozen-blocks"]["outcome"] in ("known", "skip")


async def test_a_slow_subscriber_is_waited_for(containerd_21: Containerd) -> None:
    """Longer than `exit-delay` tolerates: what comes then was not lost."""
    async with Stage(containerd_21.socket, IMAGE, History()) as stage:
        stage.beside(stage.relist())
        slow = await stage.listen("slow", frozen=True)
        await stage.served(await stage.listen(MAIN))
        pod = await stage.pod("plain")
        await stage.remove(await stage.container(pod, start=False))
        settling = asyncio.create_task(stage.settled("plain"))
        await asyncio.wait({settling}, timeout=10)
        assert not settling.done()
        slow.thaw()
        await settling
        (life,) = stage.history.of(["plain"], "slow")
        assert not life.missing


async def test_those_that_left_take_events_before_a_run(containerd_17: Containerd) -> None:
    """An earlier run's: this one begins once its own subscriber hears something."""
    async with Stage(containerd_17.socket, IMAGE, History()) as stage:
        for _ in range(15):
            await stage.leave(*await asyncio.gather(*map(stage.listen, ["leaver"] * 10)))
        await stage.served(await stage.listen(MAIN))
        assert [*stage.history.heard()]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("echo done; false", "fails with exit code 1"),
        ("echo done", "restarts nothing: a subscription outlived it"),
    ],
)
async def test_a_restart_that_fails_is_a_mistake(
    containerd_21: Containerd, how: str, said: str
) -> None:
    """Never skipped: CI would not notice that nothing is restarted. stdout is for results alone."""
    async with judging(containerd_21, "--only=restart", f"--restart-command={how}") as command:
        outcome = await command.ended()
    lines = ["playing restart", "done", f"shadow-pleg: --restart-command: {said}"]
    assert outcome.err.splitlines() == lines
    assert (outcome.code, outcome.out) == (2, "")


async def test_a_restart_is_not_left_halfway(containerd_21: Containerd, folder: Path) -> None:
    """A signal waits for its end."""
    asked, done = folder / "asked", folder / "done"
    how = f"touch {asked}; until [ -e {done} ]; do sleep 0.05; done"
    async with judging(containerd_21, "--only=restart", f"--restart-command={how}") as command:
        await until(asked.exists, "it restarts the runtime")
        ending = asyncio.create_task(command.stop())
        await asyncio.wait({ending}, timeout=3)
        assert not ending.done()
        done.touch()
        await ending


async def test_a_start_is_not_cancelled(containerd_21: Containerd) -> None:
    """Its container may run on, and can never be removed (containerd#11037)."""
    async with Stage(containerd_21.socket, IMAGE, History()) as stage:
        pod = await stage.pod("plain")
        key = await stage.container(pod, start=False)
        shim = containerd_21.shim_of(pod.id)
        os.kill(shim, signal.SIGSTOP)
        start = asyncio.create_task(stage.call("StartContainer", {1: key}))
        await until(containerd_21.bundle_of(key).exists, "the shim is asked to start it")
        start.cancel()
        await asyncio.wait({start})
        os.kill(shim, signal.SIGCONT)

        async def runs() -> bool:
            return (await stage.status(key)).state == pb.CONTAINER_RUNNING

        await until(runs, "it is started")
    assert stage.is_clear


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_runtime_that_dies_is_no_success(
    containerd_21: Containerd, *, at_once: bool
) -> None:
    """Even if it comes back at once; a further run removes what is left."""
    async with containerd_21.pods() as cri, Running(*FLAGS, at(containerd_21)) as command:
        await at_work(cri)
        await containerd_21.kill()
        if at_once:
            await containerd_21.start()
        outcome = await command.ended()
    assert outcome.code == 2, outcome
    if not at_once:
        assert "\npods may be left, run it again: ListPodSandbox fails: UNAV" in outcome.err
        await containerd_21.start()
    async with judging(containerd_21, "--only=once", "--seconds=5") as command:
        await judged(command)


async def test_a_node_in_use_is_left_alone(containerd_21: Containerd) -> None:
    """Its pod lives on."""
    async with containerd_21.pods() as cri:
        sandbox = await cri.run_pod("precious")
        async with Running("conformance", at(containerd_21)) as command:
            said = (await command.ended()).complaint(2)
        assert said.endswith("take a machine that is free, or give --beside-kubelet")
        assert await cri.sandboxes() == {sandbox.id: 0}


async def test_a_runtime_without_events_says_so(containerd_16: Containerd) -> None:
    """And answers; nothing else is judged."""
    async with judging(containerd_16, "--seconds=5") as command:
        rows = await judged(command)
    assert {name for name, row in rows.items() if row["outcome"] != "skip"} == {
        "switched-off",
        "answered",
    }
