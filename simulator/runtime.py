"""The world: sandboxes and containers, and what this runtime announces about them.

One method for each thing that can happen to them. What the recordings do not show is a guess: CRI-O
lists a failed start as containerd does.
"""

import random
import time
import uuid
from collections import Counter
from dataclasses import replace

from exporter.cri import runtime_v1_pb2 as cri
from exporter.pleg.events import EventType, Lifecycle, ListedState, ObjectKind
from exporter.pleg.findings import Verdict
from simulator.behaviour import BEHAVIOURS
from simulator.cgroups import CgroupFiles
from simulator.channel import Channel
from simulator.options import Options
from simulator.outbox import Outbox
from simulator.records import ContainerRecord, Notice, SandboxRecord

Losses = Counter[tuple[Lifecycle, ObjectKind]]


class SimulatedRuntime:
    """A runtime without a socket. Repeating an action is harmless, as in the CRI.

    `up`: while False, things happen but are never announced. `losses`: announcements that reached
    no subscriber, because they were dropped, or had no stream, or the runtime was down. `relists`:
    the number of complete relists answered. Methods that create something raise KeyError for
    unknown ids. `names`: what all ids and names are drawn from. `cgroups`: where it shows which
    containers have processes. `wrong`: how many ghosts and strays it has had.
    """

    def __init__(self, options: Options, cgroups: CgroupFiles | None = None) -> None:
        self.options = options
        self._cgroups = cgroups
        self.behaviour = BEHAVIOURS[options.runtime]
        self.losses: Losses = Counter()
        self.wrong: Counter[Verdict] = Counter()
        self.relists = 0
        self.channel = Channel(self.behaviour, self.lose)
        self.outbox = Outbox(options, self.channel.publish, self.lose)
        self.names = options.random("names")
        self.up = True
        self._rng = options.random("sandboxes")
        self._sandboxes: dict[str, SandboxRecord] = {}
        self._containers: dict[str, ContainerRecord] = {}
        # Ids of each sandbox's containers.
        self._pods: dict[str, list[str]] = {}

    def lose(self, notice: Notice) -> None:
        """Count an announcement that no subscriber will receive."""
        self.losses[notice.type.announces, notice.kind] += 1

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

    def run_pod(self, name: str, namespace: str = "default") -> str:
        """RunPodSandbox; returns the sandbox's id."""
        sandbox_id = _new_id(self.names)
        uid = str(uuid.UUID(int=self.names.getrandbits(128), version=4))
        sandbox = SandboxRecord(sandbox_id, name, uid, namespace, time.time_ns())
        self._sandboxes[sandbox.id], self._pods[sandbox.id] = sandbox, []
        if self._cgroups:
            self._cgroups.run(uid, sandbox.id)
        if self._rng.random() < self.behaviour.sandbox_created:
            self._announce(sandbox.id, EventType.CREATED, sandbox)
        self._announce(sandbox.id, EventType.STARTED, sandbox)
        return sandbox.id

    def create(self, sandbox_id: str, name: str, attempt: int = 0) -> str:
        """CreateContainer; returns the container's id."""
        sandbox = self._sandboxes[sandbox_id]
        container_id = _new_id(self.names)
        self._containers[container_id] = ContainerRecord(
            container_id, sandbox.id, name, attempt, created_at_ns=time.time_ns()
        )
        self._pods[sandbox.id].append(container_id)
        self._announce(container_id, EventType.CREATED, sandbox)
        return container_id

    def start(self, container_id: str) -> None:
        """StartContainer of a CREATED container."""
        record = self._in_state(container_id, ListedState.CREATED)
        if record is not None:
            started = replace(record, state=ListedState.RUNNING, started_at_ns=time.time_ns())
            self._containers[container_id] = started
            self._process(record, runs=True)
            self._announce(container_id, EventType.STARTED, self._sandboxes[record.sandbox_id])

    def fail_start(self, container_id: str) -> None:
        """A StartContainer that fails: EXITED without a start, and not announced."""
        record = self._in_state(container_id, ListedState.CREATED)
        if record is not None:
            # There is a process until it turns out that it cannot become the container's.
            self._process(record, runs=True)
            self._process(record, runs=False)
        self._end(container_id, ListedState.CREATED, announced=False)

    def exit(self, container_id: str) -> None:
        """A running container's process ends, and the runtime notices."""
        record = self._in_state(container_id, ListedState.RUNNING)
        if record is not None:
            self._process(record, runs=False)
        self.take_for_ended(container_id)

    def end_process(self, container_id: str) -> None:
        """A running container's process ends, and the runtime does not notice."""
        record = self._in_state(container_id, ListedState.RUNNING)
        if record is not None and self._cgroups:
            self._cgroups.empty(self._sandboxes[record.sandbox_id].uid, record.id)

    def begin_clean_up(self, container_id: str) -> None:
        """A running container's process ends; the runtime knows, and lists it as running still."""
        self.end_process(container_id)
        record = self._in_state(container_id, ListedState.RUNNING)
        if record is not None:
            self._containers[container_id] = replace(record, finished_at_ns=time.time_ns())

    def take_for_ended(self, container_id: str) -> None:
        """The runtime says that a running container ended; its process may run on."""
        self._end(container_id, ListedState.RUNNING)

    def end_stray(self, sandbox_id: str, container_id: str) -> None:
        """The process ends of a container that the runtime does not know any more."""
        if self._cgroups and sandbox_id in self._sandboxes:
            self._cgroups.remove(self._sandboxes[sandbox_id].uid, container_id)

    def stop(self, container_id: str) -> None:
        """StopContainer; on some runtimes also of one that never ran."""
        self.exit(container_id)
        if self.behaviour.stops_never_started:
            self._end(container_id, ListedState.CREATED)

    def remove(self, container_id: str) -> None:
        """RemoveContainer; a running container is killed first."""
        self.stop(container_id)
        self._remove(container_id)

    def stop_pod(self, sandbox_id: str) -> None:
        """StopPodSandbox: its containers first."""
        for container in self._containers_of(sandbox_id):
            self.stop(container.id)
        self._unready(sandbox_id)

    def remove_pod(self, sandbox_id: str) -> None:
        """RemovePodSandbox: stops what is still running, removes containers, then the sandbox."""
        if sandbox_id not in self._sandboxes:
            return
        for container in self._containers_of(sandbox_id):
            self.stop(container.id)
        self._unready(sandbox_id, announced=self.behaviour.stops_removed_pod)
        for container in self._containers_of(sandbox_id):
            self._remove(container.id, announced=self.behaviour.deletes_inside_pod)
        sandbox = self._sandboxes[sandbox_id]
        if self.behaviour.sandbox_deleted:
            status = sandbox if self.behaviour.deleted_has_status else None
            self._announce(sandbox_id, EventType.DELETED, status)
        del self._sandboxes[sandbox_id], self._pods[sandbox_id]

    def _unready(self, sandbox_id: str, *, announced: bool = True) -> None:
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is not None and sandbox.ready:
            stopped = self._sandboxes[sandbox_id] = replace(sandbox, ready=False)
            if self._cgroups:
                self._cgroups.remove(sandbox.uid, sandbox_id)
            if announced:
                self._announce(sandbox_id, EventType.STOPPED, stopped)

    def _remove(self, container_id: str, *, announced: bool = True) -> None:
        record = self._containers.pop(container_id, None)
        if record is None:
            return
        self._pods[record.sandbox_id].remove(container_id)
        if announced:
            self._announce(container_id, EventType.DELETED, self._sandboxes[record.sandbox_id])

    def _process(self, record: ContainerRecord, *, runs: bool) -> None:
        """Its cgroup comes or goes."""
        if self._cgroups:
            act = self._cgroups.run if runs else self._cgroups.remove
            act(self._sandboxes[record.sandbox_id].uid, record.id)

    def _end(self, container_id: str, state: ListedState, *, announced: bool = True) -> None:
        """A container that is in that state becomes EXITED."""
        record = self._in_state(container_id, state)
        if record is not None:
            finished = record.finished_at_ns or time.time_ns()
            ended = replace(record, state=ListedState.EXITED, finished_at_ns=finished)
            self._containers[container_id] = ended
            if announced:
                self._announce(container_id, EventType.STOPPED, self._sandboxes[record.sandbox_id])

    def _statuses(self, sandbox_id: str) -> list[cri.ContainerStatus]:
        return [container.status() for container in self._containers_of(sandbox_id)]

    def _containers_of(self, sandbox_id: str) -> list[ContainerRecord]:
        return [self._containers[container_id] for container_id in self._pods.get(sandbox_id, ())]

    def _in_state(self, container_id: str, state: ListedState) -> ContainerRecord | None:
        record = self._containers.get(container_id)
        return record if record is not None and record.state is state else None

    def _announce(self, object_id: str, event: EventType, status: SandboxRecord | None) -> None:
        """Announce a step of a sandbox or container; without `status` if the runtime has none."""
        kind = ObjectKind.SANDBOX if object_id in self._sandboxes else ObjectKind.CONTAINER
        now_ns = time.time_ns()
        message = cri.ContainerEventResponse(
            container_id=object_id,
            container_event_type=cri.ContainerEventType.Name(event),
            created_at=now_ns,
            pod_sandbox_status=None if status is None else status.status(),
            containers_statuses=[] if status is None else self._statuses(status.id),
        )
        notice = Notice(object_id, event, kind, now_ns, message.SerializeToString())
        if self.up:
            self.outbox.post(notice, now_ns)
        else:
            self.lose(notice)


def _new_id(rng: random.Random) -> str:
    return f"{rng.getrandbits(256):064x}"
