"""Asking `ContainerStatus` what neither the lists nor the stream can show."""

from itertools import pairwise

import grpc
import pytest
from structlog.testing import capture_logs

from exporter.model.events import EventType
from exporter.model.findings import Verdict
from exporter.model.labels import Call
from simulator.service import Method
from testbed.waiting import until
from tests.support.observer import DEADLINE, observing, parts, tasks
from tests.support.runtimes import CRIO, Bystander, ScriptedServer, simulated, unannounced
from tests.support.web import cards_now

pytestmark = pytest.mark.virtual_time

STATUS = Method.CONTAINER_STATUS


def created_container(server: ScriptedServer) -> str:
    with unannounced(server):
        return server.runtime.create(server.runtime.run_pod("web-0"), "app")


@pytest.mark.parametrize(("garbled", "refused"), [(0, 0), (2, 0), (0, 2)])
async def test_a_failed_start_is_asked_about_at_once_and_with_each_relist_until_answered(
    garbled: int, refused: int
) -> None:
    """Listed EXITED, never announced, never started: the runtime does not announce that."""
    async with simulated(CRIO) as server:
        container, calls = created_container(server), server.faults
        calls.refuse_next(refused, STATUS, code=grpc.StatusCode.INTERNAL)
        for _ in range(garbled):
            calls.reply_next(STATUS, b"\xff")
        async with observing(server.socket, missed_grace=1.0) as observer:
            await observer.connected()
            server.runtime.fail_start(container)
            asked = 1 + garbled + refused
            await until(lambda: calls.count(STATUS) == asked, "asked until answered")
            assert observer.node.tally.total(Verdict.MISSED) == 0
            lists = calls.times(Method.LIST_CONTAINERS)
            assert all(
                any(one < at < other for at in lists)
                for one, other in pairwise(calls.times(STATUS))
            )
            await observer.judged()
            assert observer.losses == {"missed ContainerDied container by_design": 1}
            assert calls.count(STATUS) == asked


async def test_questions_are_asked_one_at_a_time_and_only_so_many_wait(
    server: ScriptedServer,
) -> None:
    """A mass death fills no memory: 256 wait, each of them once; others are left to be repeated."""
    ids, calls = [f"c{number}" for number in range(1000)], server.faults
    async with parts(server.socket) as those:
        inquiring = those.context.inquiring
        inquiring.ask(ids)
        inquiring.ask(ids)
        calls.hang(STATUS)
        async with tasks(inquiring.run()):
            await until(lambda: calls.count(STATUS) == 1, "the first")
            await those.context.endpoint.for_lists().version(DEADLINE)
            assert calls.count(STATUS) == 1
            calls.resume()
            await until(lambda: calls.count(STATUS) == 256, "all that wait", seconds=DEADLINE)
            inquiring.ask(ids[-1:])
            await until(lambda: calls.count(STATUS) == 257, "there is room again")
        assert calls.most_in_flight[STATUS] == 1
        assert those.node.tally.total(Verdict.MISSED) == 0


@pytest.mark.parametrize(("deleted", "cause"), [(True, "by_design"), (False, "silent")])
async def test_an_audit_tells_whether_a_removal_is_owed(
    server: ScriptedServer, deleted: bool, cause: str
) -> None:
    """Containerd announces no DELETED of what was deleted behind the CRI; an intact one owes it."""
    container, beside = created_container(server), Bystander(server)
    async with observing(server.socket) as observer:
        await observer.connected()
        server.runtime.start(container)
        await observer.relisted()
        server.runtime.exit(container)
        if deleted:
            server.runtime.delete_below(container)
        else:
            server.runtime.outbox.drop_next(container, EventType.DELETED)
        asked = server.faults.count(STATUS)
        await until(lambda: server.faults.count(STATUS) > asked + 2, "it was audited")
        server.runtime.remove(container)
        await beside.judged(observer)
        assert observer.losses == {f"missed ContainerRemoved container {cause}": 1}


async def test_one_exited_container_is_audited_with_each_relist(server: ScriptedServer) -> None:
    """One that is still listed: containerd logs two errors for each audit of one that is gone."""
    with unannounced(server):
        sandbox = server.runtime.run_pod("web-0")
        ids = [server.runtime.create(sandbox, "job", number) for number in range(5)]
        for container in ids:
            server.runtime.start(container)
            server.runtime.exit(container)
    async with parts(server.socket) as those:
        async with tasks(those.relisting.run(), those.context.inquiring.run()):
            calls = server.faults
            await until(lambda: calls.count(STATUS) == 7, "audits", seconds=DEADLINE)
            assert calls.count(Method.LIST_CONTAINERS) >= 7
            assert calls.most_in_flight[STATUS] == 1
            with capture_logs() as logs:
                for container in ids[:-1]:
                    server.runtime.remove(container)
                await until(lambda: calls.count(STATUS) == 9, "audits", seconds=DEADLINE)
        assert logs == []


async def test_a_container_whose_status_hangs_is_named_until_it_answers() -> None:
    async with simulated(CRIO) as server:
        container = created_container(server)
        async with observing(server.socket, missed_grace=1.0) as observer:
            await observer.connected()
            node = observer.node
            server.faults.hang(STATUS)
            server.runtime.fail_start(container)
            await until(lambda: bool(node.hanging), "it hangs", seconds=DEADLINE)
            assert node.hanging == {container: "default/web-0/app"}
            assert node.call_seconds[Call.STATUS] == pytest.approx(5 * node.calls[Call.STATUS], 0.1)
            cards = cards_now(node)
            assert "ContainerStatus hangs: default/web-0/app" in cards["Last relist"].notes
            server.faults.resume()
            await until(lambda: not node.hanging, "it answers", seconds=DEADLINE)
            assert node.calls[Call.SANDBOXES] == node.calls[Call.CONTAINERS] > 0
