"""The shadow relist: its rhythm, its failures, and what it leaves behind."""

import asyncio
import time
from dataclasses import replace
from functools import partial

import grpc
import pytest
from structlog.typing import EventDict

from exporter.cri import limits
from exporter.errors import OutgrownError
from exporter.model.findings import Verdict
from exporter.node.state import Node
from simulator.service import Method
from testbed.messages import introduction
from testbed.waiting import until
from tests.support.observer import DEADLINE, observing, parts, patiently, sample, tasks
from tests.support.runtimes import ScriptedServer, running_container, unannounced

pytestmark = pytest.mark.virtual_time

SANDBOXES, CONTAINERS = Method.LIST_POD_SANDBOX, Method.LIST_CONTAINERS
LISTS = (SANDBOXES, CONTAINERS)


async def test_the_loop_rests_for_the_period_after_each_relist(server: ScriptedServer) -> None:
    period = 0.3
    async with parts(server.socket, relist_period=period) as those, tasks(those.relisting.run()):
        calls = server.faults
        await until(lambda: calls.count(SANDBOXES) == 4, "four relists")
        assert [method for method, _ in calls.calls][:4] == [*LISTS, *LISTS]
        # What is sent a period apart may arrive a little less than that apart.
        assert min(calls.gaps(SANDBOXES)) > 0.9 * period - 0.1
        assert sample(those, "shadow_pleg_relist_interval_seconds_count") == 3
        assert sample(those, "shadow_pleg_relist_interval_seconds_sum") >= 3 * 0.9 * period
        assert sample(those, "shadow_pleg_relist_duration_seconds_count") >= 3


async def test_failures_in_a_row_are_repeated_ever_later_up_to_the_period(
    server: ScriptedServer,
) -> None:
    """Four times 1, then 2 and 4 seconds with their jitter, then about the period."""
    server.faults.refuse_next(9, SANDBOXES, code=grpc.StatusCode.INTERNAL)
    async with parts(server.socket, relist_period=7.0) as those:
        pauses = [await those.relisting._relist() for _ in range(10)]
        server.faults.refuse_next(1, SANDBOXES, code=grpc.StatusCode.INTERNAL)
        pauses.append(await those.relisting._relist())
    period = (6.3, 7.7)
    expected = [(1, 1.5)] * 4 + [(2, 3), (4, 6)] + [period] * 4 + [(1, 1.5)]
    assert all(low <= pause <= high for pause, (low, high) in zip(pauses, expected, strict=True)), (
        pauses
    )


@pytest.mark.parametrize("hung", LISTS)
async def test_a_list_that_hangs_is_given_up_and_the_process_lives(
    server: ScriptedServer, hung: Method
) -> None:
    """A dead runtime must not restart its observer; it is only not ready."""
    async with observing(server.socket, relist_timeout=0.3, relist_threshold=0.5) as observer:
        await observer.relisted()
        server.faults.hang(hung)
        await patiently(lambda: observer.node.relist_errors["deadline_exceeded"] >= 2, "given up")
        assert server.faults.most_in_flight[hung] == 1
        assert not observer.not_alive
        assert f"{hung.value}: deadline_exceeded" in observer.node.relist_note
        # A probe needs no login, and what a runtime says may name pods.
        assert observer.not_ready == "the last relist failed: deadline_exceeded"
        server.faults.resume()
        await observer.relisted()
        assert not observer.not_ready


async def test_lists_that_take_long_get_the_time_that_a_kubelet_gives_them(
    server: ScriptedServer,
) -> None:
    """Two minutes, after one that was not in time; until one is."""
    async with parts(server.socket, relist_timeout=30.0, relist_max_duty=1.0) as those:
        node = those.node
        server.faults.list_seconds = 40.0
        for expected in (("deadline_exceeded", 0.0), ("", 80.0), ("", 80.0)):
            await those.relisting._relist()
            assert (node.relist_reason, round(node.relist_seconds)) == expected
        server.faults.list_seconds = 0.1
        await those.relisting._relist()
        server.faults.list_seconds = 16.0
        await those.relisting._relist()
        assert node.relist_reason == "deadline_exceeded"
        # As slow as that is not given up either: it is gone after two minutes.
        server.faults.list_seconds = 61.0
        await those.relisting._relist()
        assert node.relist_reason == "deadline_exceeded"


async def test_a_failed_one_changes_nothing(server: ScriptedServer) -> None:
    with unannounced(server):
        _, container = running_container(server)
    async with parts(server.socket) as those, tasks(those.relisting.run()):
        node = those.node
        await until(lambda: node.relist_succeeded is not None, "the baseline")
        server.faults.refuse_next(3, CONTAINERS)
        with unannounced(server):
            server.runtime.remove(container)
        inventory, seen = node.inventory, node.relist_succeeded_wall
        await until(lambda: node.relist_errors.total() >= 2, "two failures")
        assert (node.inventory, node.relist_succeeded_wall) == (inventory, seen)
        assert node.tally.total(Verdict.WITNESSED) == 0
        await until(lambda: node.tally.total(Verdict.WITNESSED) == 2, "died and removed")
        assert node.inventory.containers.total() == 0


async def outgrow(server: ScriptedServer, node: Node, patch: pytest.MonkeyPatch) -> str:
    """Two pods are listed, then another one instead, and four entries are known; its sandbox."""
    patch.setattr(limits, "KNOWN", 5)
    patch.setattr(limits, "SPARE", 0)
    old = [running_container(server, f"old-{number}")[0] for number in range(2)]
    await until(lambda: node.inventory.pods == 2, "the baseline")
    with unannounced(server):
        for sandbox in old:
            server.runtime.remove_pod(sandbox)
        return running_container(server, "new")[0]


async def test_lists_that_have_little_in_common_are_refused_when_they_are_too_large(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known and what is new must fit together; once the list does, it is taken."""
    async with parts(server.socket) as those, tasks(those.relisting.run()):
        node = those.node
        new = await outgrow(server, node, monkeypatch)
        await until(lambda: node.relist_errors["resource_exhausted"] >= 2, "it is refused")
        assert node.relist_note.startswith(
            "the runtime sent too many new containers, besides 4 known ones: see"
        )
        assert node.inventory.pods == 2
        with unannounced(server):
            server.runtime.remove_pod(new)
        await until(lambda: node.inventory.pods == 0, "the next one is taken")


async def test_a_process_that_cannot_take_what_is_listed_ends_to_begin_again(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it knows would leave only with a list that it takes, so a restart alone helps."""
    async with parts(server.socket, relist_threshold=60.0) as those:
        running = asyncio.create_task(those.relisting.run())
        await outgrow(server, those.node, monkeypatch)
        with pytest.raises(OutgrownError, match="besides 4 known ones"):
            await running
        assert those.node.relist_succeeded is not None
        assert 60 < time.monotonic() - those.node.relist_succeeded < 75


async def test_a_slow_runtime_is_relisted_less_often_and_nothing_hurries_it(
    server: ScriptedServer,
) -> None:
    """Two slow ones in a row stretch the period, and one quick one makes it short again."""
    calls, quick = server.faults, pytest.approx(0.1)
    async with (
        parts(server.socket, relist_max_duty=0.2, relist_period=0.1) as those,
        tasks(those.relisting.run()),
    ):
        period = partial(sample, those, "shadow_pleg_relist_period_seconds")
        assert period() == quick
        calls.list_seconds = 0.1
        await until(lambda: period() > 0.7, "the period is stretched")
        seen = calls.count(SANDBOXES)
        for _ in range(20):
            those.relisting.soon()
            await asyncio.sleep(0.01)
        assert calls.count(SANDBOXES) == seen
        await until(lambda: calls.count(SANDBOXES) == seen + 2, "two more")
        assert calls.gaps(SANDBOXES)[-1] > 0.8
        calls.list_seconds = 0.0
        await until(lambda: period() == quick, "it is short again")


async def test_a_spell_of_failures_is_one_warning_and_one_all_clear(
    server: ScriptedServer, log: list[EventDict]
) -> None:
    server.faults.refuse_next(3, SANDBOXES)
    async with observing(server.socket) as observer:
        await observer.relisted()
        await observer.relisted()
        assert observer.node.relist_note == ""
    failures = [line["log_level"] for line in log if line["event"] == "relist failed"]
    assert failures == ["warning", "debug", "debug"]
    assert [line["log_level"] for line in log if line["event"] == "relist works again"] == ["info"]


async def test_another_runtime_may_stream_its_lists(server: ScriptedServer) -> None:
    old = introduction("containerd", "2.1.9")
    server.faults.reply_next(Method.VERSION, old)
    async with observing(server.socket) as observer:
        await observer.connected()
        await observer.relisted()
        assert server.faults.count(Method.STREAM_CONTAINERS) == 0
        server.runtime.options = replace(server.runtime.options, stream_lists=5)
        running_container(server)
        for _ in range(4):
            server.faults.reply_next(Method.VERSION, introduction("containerd", "2.4.0"))
        server.disconnect()
        streamed = server.faults
        await until(
            lambda: streamed.count(Method.STREAM_CONTAINERS) > 0, "it streams", seconds=DEADLINE
        )
        await observer.relisted()
        assert await observer.value("shadow_pleg_pods") == 1
