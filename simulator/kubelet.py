"""The simulated node's kubelet: what it believes of the runtime's containers, and when.

It lists the runtime's containers every second, as Generic PLEG does; an evented one receives each
STOPPED that the runtime sends, too. It shows what it notices up to `--kubelet-delay` later, some
exits (`--stale`) after a minute and a half, some (`--wrong`) with another exit code. Unlike a real
one, it shows each container that the runtime has, not the newest of each name.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

import grpc

from exporter.kubelet import kubelet_pods_pb2 as pb
from exporter.model.events import EventType, ListedState
from exporter.model.findings import Verdict
from simulator.options import Listens
from simulator.pods import PodsServer
from simulator.records import ContainerRecord, Notice
from simulator.runtime import SimulatedRuntime

_PERIOD_SECONDS: Final = 1.0
_SYNC_SECONDS: Final = 5.0
# By then a status is found to be stale; and for so long it stays so.
_FOUND_SECONDS: Final = 36.0
_STALE_SECONDS: Final = 90.0
# The runtime's is 0.
_WRONG_EXIT_CODE: Final = 137
_SHOWN: Final = (ListedState.RUNNING, ListedState.EXITED)


class SimulatedKubelet:
    """Shows the containers of `runtime` on the socket `path`: `run` it while `server` serves."""

    def __init__(self, runtime: SimulatedRuntime, path: Path) -> None:
        self.server = PodsServer(path)
        self._runtime = runtime
        # How each container is shown, by sandbox; the pods' uids; and the states still to be shown.
        self._shown: dict[str, dict[str, ContainerRecord]] = {}
        self._uids: dict[str, str] = {}
        self._noticed: dict[str, ListedState] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        if runtime.options.kubelet is Listens.EVENTED:
            runtime.channel.on_sent = self._note
        # What has long been running is shown at once.
        for record in runtime.containers.values():
            self._show(record)

    async def run(self) -> None:
        """Look at the runtime every second, until cancelled."""
        try:
            while True:
                await asyncio.sleep(_PERIOD_SECONDS)
                if self._runtime.up:
                    self._look(self._runtime.containers.values())
                    self._forget()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def restart(self) -> None:
        """Its watches end, and new ones are refused until it has synchronized."""
        self.server.refusal = grpc.StatusCode.FAILED_PRECONDITION
        self.server.end()
        await asyncio.sleep(_SYNC_SECONDS)
        self.server.refusal = None

    def _note(self, notice: Notice) -> None:
        record = self._runtime.containers.get(notice.container_id)
        if notice.type is EventType.STOPPED and record is not None:
            self._look((record,))

    def _look(self, records: Iterable[ContainerRecord]) -> None:
        for record in records:
            if record.state in _SHOWN and self._noticed.get(record.id) is not record.state:
                self._noticed[record.id] = record.state
                task = asyncio.create_task(self._show_later(record))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _forget(self) -> None:
        """What the runtime has removed has ended; once that is shown, it is shown no more."""
        there = self._runtime.containers
        for shown in self._shown.values():
            for record in [each for each in shown.values() if each.id not in there]:
                if record.state is ListedState.EXITED:
                    del shown[record.id], self._noticed[record.id]
                elif self._noticed[record.id] is ListedState.RUNNING:
                    self._show(replace(record, state=ListedState.EXITED))
        for sandbox_id in set(self._shown) - set(self._runtime.sandboxes):
            for container_id in self._shown.pop(sandbox_id):
                self._noticed.pop(container_id, None)
            self.server.drop(self._uids.pop(sandbox_id))

    async def _show_later(self, record: ContainerRecord) -> None:
        options = self._runtime.options
        rng = options.random(f"kubelet/{record.id}/{record.state.value}")
        if record.state is ListedState.EXITED and rng.random() < options.stale:
            await asyncio.sleep(_FOUND_SECONDS)
            self._runtime.wrong[Verdict.STALE] += record.sandbox_id in self._shown
            await asyncio.sleep(_STALE_SECONDS - _FOUND_SECONDS)
        else:
            await asyncio.sleep(rng.random() * options.kubelet_delay)
        if self._noticed.get(record.id) is record.state:
            self._show(record)

    def _show(self, record: ContainerRecord) -> None:
        sandbox = self._runtime.sandboxes.get(record.sandbox_id)
        if sandbox is None:
            return
        self._noticed[record.id] = record.state
        if self._is_wrong(record):
            self._runtime.wrong[Verdict.DISAGREES] += 1
            record = replace(record, exit_code=_WRONG_EXIT_CODE)
        shown = self._shown.setdefault(sandbox.id, {})
        shown[record.id], self._uids[sandbox.id] = record, sandbox.uid
        status = pb.PodStatus(container_statuses=map(_status, shown.values()))
        metadata = pb.ObjectMeta(name=sandbox.name, namespace=sandbox.namespace, uid=sandbox.uid)
        pod = pb.Pod(metadata=metadata, status=status.SerializeToString())
        self.server.show(sandbox.uid, pod.SerializeToString())

    def _is_wrong(self, record: ContainerRecord) -> bool:
        """Whether another exit code is shown; what never ran has none."""
        options = self._runtime.options
        has_exited = record.state is ListedState.EXITED and record.started_at_ns > 0
        return has_exited and options.random(f"exit/{record.id}").random() < options.wrong


def _status(record: ContainerRecord) -> pb.ContainerStatus:
    own = f"containerd://{record.id}"
    state = pb.ContainerState(running=pb.ContainerStateRunning())
    if record.state is ListedState.EXITED:
        code = record.exit_code
        reason = "Error" if code else "Completed"
        end = pb.ContainerStateTerminated(exit_code=code, reason=reason, container_id=own)
        state = pb.ContainerState(terminated=end)
    return pb.ContainerStatus(name=record.name, container_id=own, state=state)
