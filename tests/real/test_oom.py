"""OOM kills that a real kernel makes in containers of a real containerd, by this machine's version.

The node's own count has those of other tests, too: nothing is asked of it here.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from exporter.model.findings import Finding, Verdict
from exporter.model.labels import OomKill, OomWitness
from exporter.runtimes.permission import EventStream
from testbed.churn import frozen
from testbed.containerd import Containerd
from testbed.fixtures import unavailable
from testbed.waiting import until
from tests.support.observer import observing
from tests.support.real_lives import begin, finish, has_exited
from tests.support.tape import Tape

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("sound_log")]

# CRI: memory_limit_in_bytes.
LIMITED = {15: {1: {4: 48 << 20}}}
TOO_MUCH = "dd if=/dev/zero of=/dev/null bs=256M count=1"
CHILD = ("/bin/sh", "-c", f"{TOO_MUCH}; sleep 1000")
INIT = ("/bin/sh", "-c", f"sleep 1; exec {TOO_MUCH}")
# Long enough for a STOPPED on a busy machine.
GRACE = 3.0
COUNTS = (OomWitness.COUNTING, OomWitness.PARTLY)


def needs_memory(containerd: Containerd) -> None:
    """Skip where the kernel limits no memory."""
    v1, v2 = containerd.cgroups / "memory", containerd.cgroups / "cgroup.controllers"
    if not v1.is_dir() and not (v2.exists() and "memory" in Path(v2).read_text().split()):
        unavailable("this machine's cgroups do not limit memory")


def kills_of(tape: Tape, container: str) -> list[Finding]:
    """What was found of them."""
    found = (each for each in tape.findings if each.verdict is Verdict.OOM)
    return [each for each in found if each.container_id == container]


V21, V17 = ("2.1", False), ("1.7", False)


@pytest.mark.parametrize(
    ("containerd", "stream", "command", "kinds"),
    [
        (V21, EventStream.AUTO, CHILD, {OomKill.SURVIVED}),
        # The second is what containerd#12260 is about, and rare.
        (V21, EventStream.AUTO, INIT, {OomKill.ANNOUNCED, OomKill.ANNOUNCED_AS_ERROR}),
        # A child's kill needs no word.
        (V17, EventStream.NEVER, CHILD, {OomKill.SURVIVED}),
    ],
    ids=["child", "init", "child, without a stream"],
    indirect=["containerd"],
)
async def test_a_kill_is_found_and_named(
    containerd: Containerd, stream: EventStream, command: tuple[str, ...], kinds: set[OomKill]
) -> None:
    """Once; on v1, where the count of an init that was killed is gone at once, by its word."""
    needs_memory(containerd)
    tape, where = Tape(), {"cgroup_root": containerd.cgroups, "event_stream": stream}
    async with (
        containerd.pods() as cri,
        observing(containerd.socket, tape, missed_grace=GRACE, **where) as exporter,
    ):
        sandbox, (keeper,) = await begin(cri, "web")
        await until(lambda: exporter.node.oom.state in COUNTS, "it is counted")
        victim = await cri.create(sandbox, "victim", command, more=LIMITED)
        await cri.start(victim)
        await until(lambda: bool(kills_of(tape, victim)), "it is judged", seconds=60)
        await exporter.relisted()
        (found,) = kills_of(tape, victim)
        assert found.cause in kinds
        assert found.pod is not None
        assert (found.pod.name, found.name) == ("web", "victim")
        assert kills_of(tape, keeper) == []
        await finish(cri, sandbox, [keeper, victim])


async def test_a_ghost_says_that_an_oom_kill_ended_it(containerd_21: Containerd) -> None:
    """A stopped shim tells of nothing; one exporter sees it die, and another comes later."""
    needs_memory(containerd_21)
    where: dict[str, Any] = {"cgroup_root": containerd_21.cgroups, "missed_grace": 0.3}

    async def ghost(begins: Callable[[], Awaitable[None]]) -> Finding:
        """The victim's, as a new exporter finds it; `begins`: once OOM kills are counted."""
        tape = Tape()

        def found() -> list[Finding]:
            ghosts = (each for each in tape.findings if each.verdict is Verdict.GHOST)
            return [each for each in ghosts if each.container_id == victim]

        async with observing(containerd_21.socket, tape, **where) as exporter:
            await until(lambda: exporter.node.oom.state in COUNTS, "it is counted")
            await begins()
            await until(lambda: bool(found()), "it is found", seconds=60)
        return found()[0]

    async with containerd_21.pods() as cri:
        other, keepers = await begin(cri, "web")
        sandbox = await cri.run_pod("job")
        victim = await cri.create(sandbox, "victim", INIT, more=LIMITED)
        with ExitStack() as until_over:

            async def starts() -> None:
                await cri.start(victim)
                until_over.enter_context(frozen(containerd_21.shim_of(victim)))

            seen, late = await ghost(starts), await ghost(partial(asyncio.sleep, 0))
        assert (seen.before, late.before) == (False, True)
        assert None not in (seen.limit, late.limit)
        await until(lambda: has_exited(cri, victim), "containerd says that it exited", seconds=30)
        await finish(cri, sandbox, [victim])
        await finish(cri, other, keepers)
