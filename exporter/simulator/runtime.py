"""The world: sandboxes and containers, and what this runtime announces about them.

One method for each thing that can happen to them, usable from scripts. What the recordings do not
show is a guess: CRI-O lists a failed start as containerd does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from exporter.pleg.events import EventType, Lifecycle, ListedState, ObjectKind
from exporter.simulator.channel import Channel
from exporter.simulator.manners import MANNERS
from exporter.simulator.names import Names
from exporter.simulator.options import Options
from exporter.simulator.outbox import Outbox
from exporter.simulator.records import ContainerRecord, Notice, SandboxRecord
from exporter.simulator.truth import Truth


class SimulatedRuntime:
    """A runtime without a socket. Repeating an action is harmless, as in the CRI.

    `wall_ns`: the clock for timestamps, the system's by default. `up`: while False, things happen
    but are never announced. Methods that create something raise KeyError for unknown ids.
    """

    def __init__(self, options: Options, wall_ns: Callable[[], int] | None = None) -> None:
        self.options = options
        self.manners = MANNERS[options.runtime]
        self.truth = Truth(self.manners)
        self.channel = Channel(self.manners, self.truth)
        self.outbox = Outbox(options, self.truth, self.channel.publish)
        self.names = Names(options.random("names"))
        self.wall_ns = wall_ns or time.time_ns
        self.up = True
        self._luck = options.random("sandboxes")
        self._sandboxes: dict[str, SandboxRecord] = {}
        self._containers: dict[str, ContainerRecord] = {}

    def sandboxes(self) -> tuple[SandboxRecord, ...]:
        """What ListPodSandbox shows."""
        return tuple(self._sandboxes.values())

    def containers(self) -> tuple[ContainerRecord, ...]:
        """What ListContainers shows."""
        return tuple(self._containers.values())

    def container(self, container_id: str) -> ContainerRecord | None:
        """What ContainerStatus knows; None: no such container."""
        return self._containers.get(container_id)

    def go_down(self) -> None:
        """The runtime dies; containers keep running. What was not sent yet is lost."""
        self.up = False
        self.outbox.lose_all()
        self.channel.lose_all()

    def come_up(self) -> None:
        """The runtime is back, with its state intact."""
        self.up = True

    def run_pod(self, name: str, namespace: str = "default") -> str:
        """RunPodSandbox; returns the sandbox's id."""
        sandbox = self._add_sandbox(name, namespace)
        created = self._luck.random() < self.manners.sandbox_created
        self._step(sandbox.id, EventType.CREATED, sandbox, announced=created)
        self._step(sandbox.id, EventType.STARTED, sandbox)
        return sandbox.id

    def fail_pod(self, name: str, namespace: str = "default") -> str | None:
        """RunPodSandbox whose network setup fails; the id, if the sandbox stays listed."""
        if not self.manners.keeps_failed_pod:
            return None
        sandbox = self._add_sandbox(name, namespace, ready=False)
        self._step(sandbox.id, EventType.CREATED, sandbox, announced=False)
        self._step(sandbox.id, EventType.STOPPED, sandbox, announced=False)
        return sandbox.id

    def create(self, sandbox_id: str, name: str, attempt: int = 0) -> str:
        """CreateContainer; returns the container's id."""
        sandbox = self._sandboxes[sandbox_id]
        container_id = self.names.id()
        self._containers[container_id] = ContainerRecord(
            container_id, sandbox.id, name, attempt, created_at_ns=self.wall_ns()
        )
        self.truth.born(container_id, ObjectKind.CONTAINER)
        self._step(container_id, EventType.CREATED, sandbox)
        return container_id

    def start(self, container_id: str) -> None:
        """StartContainer of a CREATED container."""
        if self._has_state(container_id, ListedState.CREATED):
            self._become(container_id, ListedState.RUNNING, started_at_ns=self.wall_ns())
            self._announce(container_id, EventType.STARTED)

    def fail_start(self, container_id: str) -> None:
        """A StartContainer that fails: EXITED without a start, and not announced."""
        if self._has_state(container_id, ListedState.CREATED):
            self._become(container_id, ListedState.EXITED, finished_at_ns=self.wall_ns())
            self._announce(container_id, EventType.STOPPED, announced=False)

    def exit(self, container_id: str) -> None:
        """A running container's process ends."""
        if self._has_state(container_id, ListedState.RUNNING):
            self._become(container_id, ListedState.EXITED, finished_at_ns=self.wall_ns())
            self._announce(container_id, EventType.STOPPED)

    def stop(self, container_id: str) -> None:
        """StopContainer; on some runtimes also of one that never ran."""
        self.exit(container_id)
        created = self._has_state(container_id, ListedState.CREATED)
        if created and self.manners.stops_never_started:
            self._become(container_id, ListedState.EXITED, finished_at_ns=self.wall_ns())
            self._announce(container_id, EventType.STOPPED)

    def remove(self, container_id: str) -> None:
        """RemoveContainer; a running container is killed first."""
        self.stop(container_id)
        self._remove(container_id)

    def delete_below(self, container_id: str) -> None:
        """Delete an exited container behind the CRI, which keeps listing it."""
        if self._has_state(container_id, ListedState.EXITED):
            record = self._containers[container_id]
            self._containers[container_id] = replace(record, deleted_below=True)
            self.truth.deleted_below(container_id)

    def kill_sandbox(self, sandbox_id: str) -> None:
        """The sandbox's own process, if any, dies; its containers keep running."""
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is not None and sandbox.ready and self.manners.sandbox_process:
            self._unready(sandbox)

    def stop_pod(self, sandbox_id: str) -> None:
        """StopPodSandbox: its containers first."""
        for container in self._containers_of(sandbox_id):
            self.stop(container.id)
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is not None and sandbox.ready:
            self._unready(sandbox)

    def remove_pod(self, sandbox_id: str) -> None:
        """RemovePodSandbox: stops what is still running, removes containers, then the sandbox."""
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is None:
            return
        for container in self._containers_of(sandbox_id):
            self.stop(container.id)
        if sandbox.ready:
            sandbox = self._unready(sandbox, announced=self.manners.stops_removed_pod)
        for container in self._containers_of(sandbox_id):
            self._remove(container.id, announced=self.manners.deletes_inside_pod)
        del self._sandboxes[sandbox_id]
        status = sandbox if self.manners.deleted_has_status else None
        deleted = self.manners.sandbox_deleted
        self._step(sandbox_id, EventType.DELETED, status, announced=deleted)

    def _add_sandbox(self, name: str, namespace: str, *, ready: bool = True) -> SandboxRecord:
        names, now_ns = self.names, self.wall_ns()
        sandbox = SandboxRecord(names.id(), name, names.uid(), namespace, now_ns, ready)
        self._sandboxes[sandbox.id] = sandbox
        self.truth.born(sandbox.id, ObjectKind.SANDBOX)
        return sandbox

    def _unready(self, sandbox: SandboxRecord, *, announced: bool = True) -> SandboxRecord:
        stopped = replace(sandbox, ready=False)
        self._sandboxes[sandbox.id] = stopped
        self._step(sandbox.id, EventType.STOPPED, stopped, announced=announced)
        return stopped

    def _remove(self, container_id: str, *, announced: bool = True) -> None:
        record = self._containers.pop(container_id, None)
        if record is not None:
            sandbox = self._sandboxes[record.sandbox_id]
            announced = announced and not record.deleted_below
            self._step(container_id, EventType.DELETED, sandbox, announced=announced)

    def _containers_of(self, sandbox_id: str) -> list[ContainerRecord]:
        return [one for one in self._containers.values() if one.sandbox_id == sandbox_id]

    def _has_state(self, container_id: str, state: ListedState) -> bool:
        record = self._containers.get(container_id)
        return record is not None and record.state is state

    def _become(
        self,
        container_id: str,
        state: ListedState,
        started_at_ns: int = 0,
        finished_at_ns: int = 0,
    ) -> None:
        record = self._containers[container_id]
        self._containers[container_id] = replace(
            record,
            state=state,
            started_at_ns=started_at_ns or record.started_at_ns,
            finished_at_ns=finished_at_ns,
        )

    def _announce(self, container_id: str, kind: EventType, *, announced: bool = True) -> None:
        sandbox = self._sandboxes[self._containers[container_id].sandbox_id]
        self._step(container_id, kind, sandbox, announced=announced)

    def _step(
        self, life: str, kind: EventType, status: SandboxRecord | None, *, announced: bool = True
    ) -> None:
        """Record a step of a life, and announce it if this runtime does so."""
        event: Lifecycle = kind.announces
        self.truth.happened(life, event, announced=announced)
        if announced and self.up:
            now_ns = self.wall_ns()
            self.outbox.post(Notice(life, kind, now_ns, status), now_ns)
