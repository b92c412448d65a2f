"""OOM kills that a real kernel makes in containers of a real containerd, by this machine's version.

The node's own count has those of other tests, too: nothing is asked of it here.
"""

from pathlib import Path

import pytest

from exporter.model.findings import Finding, Verdict
from exporter.model.labels import OomKill, OomWitness
from exporter.runtimes.permission import EventStream
from testbed.containerd import Containerd
from testbed.fixtures import unavailable
from testbed.waiting import until
from tests.support.observer import observing
from tests.support.real_lives import begin, finish
from tests.support.tape import Tape

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("sound_log")]

# CRI's memory_limit_in_bytes.
LIMITED = {4: 48 << 20}
TOO_MUCH = "dd if=/dev/zero of=/dev/null bs=256M count=1"
CHILD = ("/bin/sh", "-c", f"{TOO_MUCH}; sleep 1000")
INIT = ("/bin/sh", "-c", f"sleep 1; exec {TOO_MUCH}")
# Long enough for a STOPPED on a busy machine.
GRACE = 3.0


def needs_memory(containerd: Containerd) -> None:
    """Skip where the kernel limits no memory."""
    v1, v2 = containerd.cgroups / "memory", containerd.cgroups / "cgroup.controllers"
    if not v1.is_dir() and not (v2.exists() and "memory" in Path(v2).read_text().split()):
        unavailable("this machine's cgroups do not limit memory")


def kills_of(tape: Tape, container: str) -> list[Finding]:
    """What was found of them."""
    found = (each for each in tape.findings if each.verdict is Verdict.OOM)
    return [each for each in found if each.container_id == container]


@pytest.mark.parametrize(
    ("command", "kinds"),
    [
        (CHILD, {OomKill.SURVIVED}),
        # The second is what containerd#12260 is about, and rare.
        (INIT, {OomKill.ANNOUNCED, OomKill.ANNOUNCED_AS_ERROR}),
    ],
    ids=["child", "init"],
)
async def test_a_kill_is_found_and_named(
    containerd_21: Containerd, command: tuple[str, ...], kinds: set[OomKill]
) -> None:
    """Once; on v1, where the count of an init that was killed is gone at once, by its word."""
    needs_memory(containerd_21)
    tape = Tape()
    async with (
        containerd_21.pods() as cri,
        observing(
            containerd_21.socket, tape, cgroup_root=containerd_21.cgroups, missed_grace=GRACE
        ) as exporter,
    ):
        sandbox, (keeper,) = await begin(cri, "web")
        await until(lambda: exporter.node.oom.state is not OomWitness.UNAVAILABLE, "it is counted")
        victim = await cri.create(sandbox, "victim", command, resources=LIMITED)
        await cri.start(victim)
        await until(lambda: bool(kills_of(tape, victim)), "it is judged", seconds=60)
        await exporter.relisted()
        (found,) = kills_of(tape, victim)
        assert found.cause in kinds
        assert found.pod is not None
        assert (found.pod.name, found.name) == ("web", "victim")
        assert kills_of(tape, keeper) == []
        await finish(cri, sandbox, [keeper, victim])


async def test_without_a_stream_nothing_is_announced(containerd_17: Containerd) -> None:
    """A child's kill needs no word: it is found all the same."""
    needs_memory(containerd_17)
    tape = Tape()
    never = EventStream.NEVER
    async with (
        containerd_17.pods() as cri,
        observing(
            containerd_17.socket, tape, cgroup_root=containerd_17.cgroups, event_stream=never
        ) as exporter,
    ):
        sandbox, (keeper,) = await begin(cri, "web")
        await until(lambda: exporter.node.oom.state is not OomWitness.UNAVAILABLE, "it is counted")
        victim = await cri.create(sandbox, "victim", CHILD, resources=LIMITED)
        await cri.start(victim)
        await until(lambda: bool(kills_of(tape, victim)), "it is judged", seconds=60)
        assert [each.cause for each in kills_of(tape, victim)] == [OomKill.SURVIVED]
        await finish(cri, sandbox, [keeper, victim])
