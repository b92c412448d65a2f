"""The simulated node's kubelet: what it believes of the runtime's containers, and when.

It lists the runtime's containers every second, as Generic PLEG does; an evented one also receives
each STOPPED. It shows changes up to `--kubelet-delay` later, some exits (`--stale`) after two
minutes, some (`--wrong`) with another exit code. While a container is stale, its pod stays and its
successor waits.
"""

import asyncio
import itertools
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from exporter.cri import runtime_v1_pb2 as cri
from exporter.kubelet import kubelet_pods_pb2 as pb
from exporter.model.events import EventType, ListedState
from exporter.model.findings import Verdict
from simulator.channel import Notice
from simulator.options import Listens
from simulator.pods import PodsServer
from simulator.runtime import ContainerRecord, SimulatedRuntime

_PERIOD_SECONDS: Final = 1.0
_SYNC_SECONDS: Final = 5.0
_GRACE_SECONDS: Final = 30
# The soonest that a status can be found to be stale, less a period; and how long it stays stale:
# longer than a stray's process, which runs for a minute.
_COUNTED_SECONDS: Final = 29.0
_STALE_SECONDS: Final = 120.0
# The runtime's is 0.
_WRONG_EXIT_CODE: Final = 137
_SHOWN: Final = (ListedState.RUNNING, ListedState.EXITED)


class SimulatedKubelet:
    """Shows the containers of `runtime` on the socket `path`: `run` it while `server` serves."""

    def __init__(self, runtime: SimulatedRuntime, path: Path) -> None:
        self.server = PodsServer(path)
        self._runtime = runtime
        # How each container is shown, by sandbox, and these sandboxes.
        self._shown: dict[str, dict[str, ContainerRecord]] = {}
        self._sandboxes: dict[str, cri.PodSandboxMetadata] = {}
        # States that are shown, or will be.
        self._noticed: dict[str, ListedState] = {}
        self._stale: set[str] = set()
        self._changes = asyncio.TaskGroup()
        # The API server's versions of a pod.
        self._versions = itertools.count(1)
        if runtime.options.kubelet is Listens.EVENTED:
            runtime.channel.on_sent = self._note
        # Containers of the start are shown at once.
        for record in runtime.containers.values():
            self._show(record)

    async def run(self) -> None:
        """Look at the runtime every second, until cancelled."""
        async with self._changes:
            while True:
                await asyncio.sleep(_PERIOD_SECONDS)
                if self._runtime.up and self.server.ready:
                    self._look(self._runtime.containers.values())
                    self._forget()

    async def restart(self) -> None:
        """It restarts; until it has looked at a pod, it shows the API server's status."""
        self.server.ready = False
        await self.server.stop()
        self.server.statuses.clear()
        await self.server.start()
        await asyncio.sleep(_SYNC_SECONDS)
        self.server.ready = True

    def _note(self, notice: Notice) -> None:
        record = self._runtime.containers.get(notice.container_id)
        if notice.type is EventType.STOPPED and record is not None and self.server.ready:
            self._look((record,))

    def _look(self, records: Iterable[ContainerRecord]) -> None:
        for record in records:
            is_news = record.state in _SHOWN and self._noticed.get(record.id) is not record.state
            if is_news and not self._is_behind(record):
                self._noticed[record.id] = record.state
                self._changes.create_task(self._show_later(record))

    def _forget(self) -> None:
        """Show removed containers as ended, and then no more."""
        there = self._runtime.containers
        for shown in self._shown.values():
            for record in [each for each in shown.values() if each.id not in there]:
                if record.state is ListedState.EXITED:
                    del shown[record.id], self._noticed[record.id]
                elif self._noticed[record.id] is ListedState.RUNNING:
                    self._show(replace(record, state=ListedState.EXITED))
        for sandbox_id in set(self._shown) - set(self._runtime.sandboxes):
            if not self._stale.isdisjoint(self._shown[sandbox_id]):
                continue
            for container_id in self._shown.pop(sandbox_id):
                self._noticed.pop(container_id, None)
            self.server.remove(self._sandboxes.pop(sandbox_id).uid)

    def _is_behind(self, record: ContainerRecord) -> bool:
        shown = self._shown.get(record.sandbox_id, {})
        return any(shown[each].name == record.name for each in self._stale & shown.keys())

    async def _show_later(self, record: ContainerRecord) -> None:
        options = self._runtime.options
        rng = options.random(f"kubelet/{record.id}/{record.state.value}")
        stale = record.state is ListedState.EXITED and rng.random() < options.stale
        # Else it was not shown running.
        if stale and record.id in self._shown.get(record.sandbox_id, ()):
            self._stale.add(record.id)
            await asyncio.sleep(_COUNTED_SECONDS)
            self._runtime.wrong[Verdict.STALE] += 1
            await asyncio.sleep(_STALE_SECONDS - _COUNTED_SECONDS)
            self._stale.discard(record.id)
        else:
            await asyncio.sleep(rng.random() * options.kubelet_delay)
        if self._noticed.get(record.id) is record.state:
            self._show(record)

    def _show(self, record: ContainerRecord) -> None:
        here = record.sandbox_id
        listed = self._runtime.sandboxes.get(here)
        its = listed.metadata if listed else self._sandboxes.get(here)
        if its is None:
            return
        self._noticed[record.id] = record.state
        if self._is_wrong(record):
            self._runtime.wrong[Verdict.DISAGREES] += 1
            record = replace(record, exit_code=_WRONG_EXIT_CODE)
        shown = self._shown.setdefault(here, {})
        shown[record.id], self._sandboxes[here] = record, its
        newest = sorted(shown.values(), key=lambda each: (each.name, -each.attempt))
        by_name = itertools.groupby(newest, key=lambda each: each.name)
        status = pb.PodStatus(container_statuses=[_status(*each) for _, each in by_name])
        metadata = pb.ObjectMeta(
            name=its.name,
            namespace=its.namespace,
            uid=its.uid,
            resource_version=str(next(self._versions)),
        )
        spec = pb.PodSpec(termination_grace_period_seconds=_GRACE_SECONDS)
        pod = pb.Pod(metadata=metadata, spec=spec, status=status.SerializeToString())
        self.server.update(pod)

    def _is_wrong(self, record: ContainerRecord) -> bool:
        """Whether another exit code is shown; what never ran has none."""
        options = self._runtime.options
        has_exited = record.state is ListedState.EXITED and record.started_at_ns > 0
        return has_exited and options.random(f"exit/{record.id}").random() < options.wrong


def _status(record: ContainerRecord, *older: ContainerRecord) -> pb.ContainerStatus:
    """Of the newest container of a name; its last state is that of the one before it."""
    ended = next((each for each in older if each.state is ListedState.EXITED), None)
    return pb.ContainerStatus(
        name=record.name,
        container_id=f"containerd://{record.id}",
        state=_state(record),
        last_state=_state(ended) if ended else None,
    )


def _state(record: ContainerRecord) -> pb.ContainerState:
    if record.state is not ListedState.EXITED:
        return pb.ContainerState(running=pb.ContainerStateRunning())
    code, own = record.exit_code, f"containerd://{record.id}"
    reason = "Error" if code else "Completed"
    end = pb.ContainerStateTerminated(exit_code=code, reason=reason, container_id=own)
    return pb.ContainerState(terminated=end)
