"""Whatever the runtime does to its announcements is counted: exactly, and as the oracle does."""

import asyncio
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from exporter.model.events import EventType, Lifecycle, ObjectKind
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import KernelWitness, KubeletPods
from exporter.runtimes.known import profile_of
from exporter.runtimes.permission import EventStream
from simulator.churn import Churn, simulated_node
from simulator.options import Options, Runtime
from simulator.runtime import CgroupFiles
from testbed.waiting import until
from tests.support.facts import outcomes
from tests.support.observer import DEADLINE, daemon_on, observing, settings, tasks
from tests.support.oracle import Oracle
from tests.support.runtimes import (
    Bystander,
    ScriptedServer,
    running_container,
    simulated,
    unannounced,
)
from tests.support.tape import Tape

pytestmark = pytest.mark.virtual_time

GRACE: Final = 1.0
ENDLESS: Final = 60.0


async def test_one_lost_exit_on_a_quiet_node_is_known_within_a_minute(
    server: ScriptedServer,
) -> None:
    """Nothing else happens there, at the default period and grace: the stream delivered nothing."""
    with unannounced(server):
        _, container = running_container(server)
    config = settings(server.socket, relist_period=10.0, missed_grace=5.0)
    async with daemon_on(config) as daemon:
        await until(lambda: daemon.node.relist_succeeded is not None, "the baseline")
        await asyncio.sleep(300)
        server.runtime.outbox.drop_next(container, EventType.STOPPED)
        server.runtime.exit(container)
        lost = time.monotonic()

        def judged() -> bool:
            return daemon.judge.at(time.monotonic()).verdict.name == "stream_silent"

        await until(judged, "the verdict", seconds=DEADLINE + ENDLESS)
        assert time.monotonic() - lost < 60


CHURN: Final = Options(
    pods=12, containers_per_pod=3, churn=15.0, drop=0.05, duplicate=0.05, delay=0.2
)


@pytest.mark.parametrize(("kernel", "lease"), [(False, 0.0), (True, 2.0)])
@pytest.mark.parametrize("runtime", [Runtime.CONTAINERD_2, Runtime.CRIO])
async def test_what_the_runtime_lost_is_what_is_counted(
    runtime: Runtime, lease: float, cgroups: Path, *, kernel: bool
) -> None:
    """Of each event and object, exactly; copies and delays, almost of the grace, are no loss."""
    copies = 0.0 if lease else CHURN.duplicate
    options = replace(CHURN, delay=0.9 * GRACE, duplicate=copies, runtime=runtime)
    setting: dict[str, Any] = {"relist_period": 0.2, "missed_grace": GRACE, "stream_lease": lease}
    setting |= {"cgroup_root": cgroups} if kernel else {}
    async with simulated(options, cgroups=CgroupFiles(cgroups)) as server:
        churn, beside = Churn(server.runtime), Bystander(server)
        churn.populate()
        async with observing(server.socket, **setting) as observer:
            await observer.connected()
            for _ in range(3):
                # The first of these events may come late, and shows only then that it is served.
                await beside.acts(observer)
            # What lists show to have changed right after the first event is excused.
            await asyncio.sleep(2 * GRACE)
            async with tasks(churn.run()):
                await asyncio.sleep(10)
            server.runtime.outbox.calm()
            await beside.judged(observer)
            counted = Counter[tuple[Lifecycle, ObjectKind]]()
            for (verdict, event, kind, cause), number in observer.node.tally.counts.items():
                if verdict in {Verdict.MISSED, Verdict.GAP} and cause is not Cause.BY_DESIGN:
                    # The first event of a renewed subscription may come long after it began.
                    assert cause in {Cause.SILENT, None, *([Cause.STALLED] if lease else [])}
                    counted[event, kind] += number
            assert counted == server.runtime.losses
            assert observer.node.kernel.state is (
                KernelWitness.WATCHING if kernel else KernelWitness.OFF
            )
            assert observer.node.pods.state is KubeletPods.OFF
            assert not any(map(observer.node.tally.total, (Verdict.GHOST, Verdict.STRAY)))
            assert counted.total() > 20
            assert (observer.node.tally.total(Verdict.DUPLICATE) == 0) is bool(lease)
            assert (server.runtime.channel.subscriptions > 5) is bool(lease)
            assert (observer.node.connections, observer.node.stream.ends) == (1, {})
            assert await observer.value("shadow_pleg_unresolved_events") == 0


@pytest.mark.parametrize(
    ("runtime", "delay"),
    [(Runtime.CONTAINERD_1, 0.2), (Runtime.CONTAINERD_2, 1.5), (Runtime.CRIO, 0.2)],
)
async def test_the_daemon_finds_what_the_oracle_finds_in_its_facts(
    runtime: Runtime, delay: float, folder: Path
) -> None:
    options = replace(CHURN, runtime=runtime, delay=delay, failed_starts=0.05)
    options = replace(options, disconnect_every=3.0, restart_every=7.0)
    tape = Tape()
    setting = {"relist_period": 0.3, "missed_grace": GRACE, "event_stream": EventStream.ALWAYS}
    async with (
        simulated_node(options, folder / "cri.sock") as server,
        observing(server.socket, tape, **setting) as observer,
    ):
        await asyncio.sleep(20)
        assert observer.node.connections > 3
        tally = observer.node.tally
    oracle = Oracle(profile_of(*runtime.value.split("/")), GRACE)
    expected = Counter(outcome for fact in tape.facts for outcome in oracle.judge(fact))
    found = outcomes(tape.findings)
    assert (found - expected, expected - found) == (Counter(), Counter())
    for verdict in Verdict:
        assert tally.total(verdict) == sum(f.verdict is verdict for f in tape.findings)
    assert tally.total(Verdict.MISSED) > 10
    assert tally.total(Verdict.CONFIRMED) > 200
    assert bool(tally.total(Verdict.LATE)) is (delay > GRACE)


@pytest.mark.parametrize("runtime", [Runtime.CONTAINERD_2, Runtime.CRIO])
async def test_what_outages_cost_is_blamed_on_them(runtime: Runtime, folder: Path) -> None:
    options = replace(CHURN, drop=0.0, runtime=runtime, disconnect_every=3.0, restart_every=7.0)
    async with (
        simulated_node(options, folder / "cri.sock") as server,
        observing(server.socket, relist_period=0.3, missed_grace=GRACE) as observer,
    ):
        await asyncio.sleep(20)
        missed = partial(observer.node.tally.total, Verdict.MISSED)
        assert missed(Cause.SILENT) == missed(Cause.STALLED) == 0
        assert missed(Cause.STREAM_DOWN) > 20


# Seconds of twenty lives each, and what is drawn of them; a million lives in all.
LONG = [
    pytest.param(2000, seed, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])
    for seed in range(3)
]


@pytest.mark.parametrize("lie", [Verdict.GHOST, Verdict.STRAY])
@pytest.mark.parametrize(("seconds", "seed"), [(30, 1), *LONG])
async def test_at_the_defaults_each_ghost_and_stray_is_found_and_nothing_else_is(
    seconds: int, seed: int, lie: Verdict, cgroups: Path
) -> None:
    """Each lasts for a minute, amid short lives."""
    ghosts, strays = (0.04 * (lie is each) for each in (Verdict.GHOST, Verdict.STRAY))
    options = Options(50, 4, churn=20.0, seed=seed, ghosts=ghosts, strays=strays)
    setting = {"cgroup_root": cgroups, "relist_period": 10.0, "missed_grace": 5.0}
    async with simulated(options, cgroups=CgroupFiles(cgroups)) as server:
        churn, wrong = Churn(server.runtime), server.runtime.wrong
        churn.populate()
        async with observing(server.socket, **setting) as observer:
            await observer.connected()
            async with tasks(churn.run()):
                await asyncio.sleep(seconds)
            await asyncio.sleep(60)
            tally = observer.node.tally
            for each in (Verdict.GHOST, Verdict.STRAY):
                assert tally.total(each) == wrong[each]
            assert wrong[lie] > 0.4 * seconds
            assert tally.total(Verdict.MISSED) == 0
