"""The world: sandboxes, containers and their cgroups, and what this runtime announces about them.

Not in the recordings, so a guess: CRI-O lists a failed start as containerd does.
"""

import random
import time
import uuid
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from exporter.cri import runtime_v1_pb2 as cri
from exporter.cri.decode import CONTAINER_STATES
from exporter.model.events import EventType, Lifecycle, ListedState, ObjectKind
from exporter.model.findings import Verdict
from exporter.model.labels import Flaw
from simulator.channel import Channel, Notice, Outbox
from simulator.options import BEHAVIOURS, Options

Losses = Counter[tuple[Lifecycle, ObjectKind]]
Wrong = Counter[Verdict | Flaw]
_EVENTS: Final = "cgroup.events"
_MEMORY: Final = "memory.events"
_CONTAINER_STATE: Final = {
    state: cri.ContainerState.Name(number) for number, state in CONTAINER_STATES.items()
}
_LATE_NS = 10 * 10**9
_STATES = {
    cri.CONTAINER_STARTED_EVENT: cri.CONTAINER_CREATED,
    cri.CONTAINER_STOPPED_EVENT: cri.CONTAINER_RUNNING,
}


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """A container as the runtime lists it; times are in nanoseconds since the epoch.

    `started_at_ns` is 0 if it never ran.
    """

    id: str
    sandbox_id: str
    name: str
    attempt: int
    created_at_ns: int
    state: ListedState = ListedState.CREATED
    started_at_ns: int = 0
    finished_at_ns: int = 0
    exit_code: int = 0

    def item(self) -> cri.Container:
        """Its entry in ListContainers."""
        return cri.Container(
            id=self.id,
            pod_sandbox_id=self.sandbox_id,
            metadata=cri.ContainerMetadata(name=self.name, attempt=self.attempt),
            state=_CONTAINER_STATE[self.state],
            created_at=self.created_at_ns,
        )

    def status(self) -> cri.ContainerStatus:
        """Its status as ContainerStatus shows it."""
        return cri.ContainerStatus(
            id=self.id,
            state=_CONTAINER_STATE[self.state],
            created_at=self.created_at_ns,
            started_at=self.started_at_ns,
            finished_at=self.finished_at_ns,
            exit_code=self.exit_code,
        )


def own_status(message: cri.ContainerEventResponse) -> cri.ContainerStatus | None:
    """The container's own status; none of a sandbox, and none any more in a DELETED."""
    found = (each for each in message.containers_statuses if each.id == message.container_id)
    return next(found, None)


def possible(message: cri.ContainerEventResponse, *, timed: bool) -> list[Flaw]:
    """The flaws that it can have. `timed`: its container's creation was sent."""
    has_own, event = own_status(message) is not None, message.container_event_type
    can = {
        Flaw.OUT_OF_ORDER: event == cri.CONTAINER_CREATED_EVENT,
        Flaw.NO_POD: message.HasField("pod_sandbox_status"),
        Flaw.NO_STATUS: has_own,
        Flaw.EMPTY_STATUS: True,
        Flaw.WRONG_STATE: has_own and event in _STATES,
        Flaw.WRONG_TIME: timed and has_own and event == cri.CONTAINER_STOPPED_EVENT,
    }
    return [flaw for flaw, may in can.items() if may]


def spoil(message: cri.ContainerEventResponse, flaw: Flaw) -> None:
    """Add a possible flaw; OUT_OF_ORDER changes nothing in the message."""
    own = own_status(message)
    if flaw is Flaw.NO_POD:
        message.pod_sandbox_status.ClearField("metadata")
    elif flaw is Flaw.EMPTY_STATUS:
        message.containers_statuses.add()
    elif own is not None and flaw is Flaw.NO_STATUS:
        message.containers_statuses.remove(own)
    elif own is not None and flaw is Flaw.WRONG_STATE:
        own.state = _STATES[message.container_event_type]
    elif own is not None and flaw is Flaw.WRONG_TIME:
        own.state = cri.CONTAINER_EXITED
        own.finished_at = message.created_at + _LATE_NS


class CgroupFiles:
    """Containers' cgroups as ordinary files below `root`, which is created.

    They are named as cgroup v2 and the kubelet's cgroupfs driver do. They show whether each
    container has processes, and that no pod has had an OOM kill.
    """

    def __init__(self, root: Path) -> None:
        self._pods = root / "kubepods" / "burstable"
        self._pods.mkdir(parents=True, exist_ok=True)
        (root / "cgroup.controllers").write_text("cpu memory pids\n", encoding="utf-8")

    def folder(self, pod_uid: str, container_id: str) -> Path:
        """That container's folder, which need not exist."""
        return self._pods / f"pod{pod_uid}" / container_id

    def run(self, pod_uid: str, container_id: str) -> None:
        """Its first process begins."""
        folder = self.folder(pod_uid, container_id)
        folder.mkdir(parents=True, exist_ok=True)
        (folder.parent / _MEMORY).write_text("oom 0\noom_kill 0\n", encoding="utf-8")
        (folder / _EVENTS).write_text("populated 1\nfrozen 0\n", encoding="utf-8")

    def empty(self, pod_uid: str, container_id: str) -> None:
        """Its last process ends, and the runtime has not noticed."""
        events = self.folder(pod_uid, container_id) / _EVENTS
        events.write_text("populated 0\nfrozen 0\n", encoding="utf-8")

    def remove(self, pod_uid: str, container_id: str) -> None:
        """Remove the cgroup, and the pod's with the last one, if they exist."""
        folder = self.folder(pod_uid, container_id)
        if folder.exists():
            (folder / _EVENTS).unlink()
            folder.rmdir()
            if not any(each.is_dir() for each in folder.parent.iterdir()):
                (folder.parent / _MEMORY).unlink()
                folder.parent.rmdir()


class NoCgroups(CgroupFiles):
    """No cgroups are shown."""

    def __init__(self) -> None:
        pass

    def run(self, pod_uid: str, container_id: str) -> None:
        """Do nothing."""

    empty = remove = run


class SimulatedRuntime:
    """A runtime without a socket. Repeating an action is harmless, as in the CRI."""

    def __init__(self, options: Options, cgroups: CgroupFiles | None = None) -> None:
        self.options = options
        self.behaviour = BEHAVIOURS[options.runtime]
        # Announcements that reached no subscriber.
        self.losses: Losses = Counter()
        # Ghosts, strays and twins, and flawed announcements that were not lost.
        self.wrong: Wrong = Counter()
        # By id: to be sent after the next announcement of the same container.
        self._late: dict[str, Notice] = {}
        # Containers whose creation went to a subscriber: their times can be compared.
        self._timed: set[str] = set()
        # Complete relists answered.
        self.relists = 0
        self.channel = Channel(self.behaviour, self.lose)
        self.outbox = Outbox(options, self.channel.publish, self.lose)
        # For all ids and names.
        self.names = options.random("names")
        # While False, things happen but are never announced.
        self.up = True
        # As they are listed.
        self.sandboxes: dict[str, cri.PodSandbox] = {}
        self.containers: dict[str, ContainerRecord] = {}
        self._cgroups = cgroups or NoCgroups()
        # Ids of each sandbox's containers.
        self._pods: dict[str, list[str]] = {}

    def lose(self, notice: Notice) -> None:
        """Count an announcement that no subscriber will receive."""
        self.losses[notice.type.announces, notice.kind] += 1
        if notice.type is EventType.CREATED:
            self._timed.discard(notice.container_id)
        if notice.flaw is not None:
            self.wrong[notice.flaw] -= 1

    def go_down(self) -> None:
        """The runtime dies; containers keep running. What was not sent yet is lost."""
        self.up = False
        while self._late:
            self.lose(self._late.popitem()[1])
        self.outbox.lose_all()
        self.channel.lose_all()

    def run_pod(self, name: str, namespace: str = "default") -> str:
        """RunPodSandbox; returns the sandbox's id."""
        sandbox_id = _new_id(self.names)
        uid = str(uuid.UUID(int=self.names.getrandbits(128), version=4))
        self.sandboxes[sandbox_id] = cri.PodSandbox(
            id=sandbox_id,
            metadata=cri.PodSandboxMetadata(name=name, uid=uid, namespace=namespace),
            state=cri.SANDBOX_READY,
            created_at=time.time_ns(),
        )
        self._pods[sandbox_id] = []
        self._cgroups.run(uid, sandbox_id)
        if self.behaviour.sandbox_created:
            self._announce(sandbox_id, EventType.CREATED, sandbox_id)
        self._announce(sandbox_id, EventType.STARTED, sandbox_id)
        return sandbox_id

    def create(self, sandbox_id: str, name: str, attempt: int = 0) -> str:
        """CreateContainer; returns the container's id; KeyError without that sandbox."""
        container_id = _new_id(self.names)
        self._pods[sandbox_id].append(container_id)
        self.containers[container_id] = ContainerRecord(
            container_id, sandbox_id, name, attempt, created_at_ns=time.time_ns()
        )
        self._announce(container_id, EventType.CREATED, sandbox_id)
        return container_id

    def start(self, container_id: str) -> None:
        """StartContainer of a CREATED container."""
        if record := self._in_state(container_id, ListedState.CREATED):
            started = replace(record, state=ListedState.RUNNING, started_at_ns=time.time_ns())
            self.containers[container_id] = started
            self._cgroups.run(self._uid(record), container_id)
            self._announce(container_id, EventType.STARTED, record.sandbox_id)

    def fail_start(self, container_id: str) -> None:
        """A StartContainer that fails: EXITED without a start, and not announced."""
        if record := self._in_state(container_id, ListedState.CREATED):
            # There is a process until it turns out that it cannot become the container's.
            self._cgroups.run(self._uid(record), container_id)
            self._cgroups.remove(self._uid(record), container_id)
            self._end(container_id, ListedState.CREATED, announced=False)

    def exit(self, container_id: str) -> None:
        """A running container's process ends, and the runtime notices."""
        if record := self._in_state(container_id, ListedState.RUNNING):
            self._cgroups.remove(self._uid(record), container_id)
            self.take_for_ended(container_id)

    def end_process(self, container_id: str) -> None:
        """A running container's process ends, and the runtime does not notice."""
        if record := self._in_state(container_id, ListedState.RUNNING):
            self._cgroups.empty(self._uid(record), container_id)

    def take_for_ended(self, container_id: str) -> None:
        """The runtime says that a running container ended; its process may run on."""
        self._end(container_id, ListedState.RUNNING)

    def end_stray(self, sandbox_id: str, container_id: str) -> None:
        """The process of a container that the runtime has removed ends."""
        if sandbox_id in self.sandboxes:
            self._cgroups.remove(self.sandboxes[sandbox_id].metadata.uid, container_id)

    def stop(self, container_id: str) -> None:
        """StopContainer; on some runtimes also of one that never ran."""
        self.exit(container_id)
        if self.behaviour.stops_never_started:
            self._end(container_id, ListedState.CREATED)

    def remove(self, container_id: str) -> None:
        """RemoveContainer; a running container is killed first."""
        self.stop(container_id)
        self._delete(container_id)

    def stop_pod(self, sandbox_id: str, *, announced: bool = True) -> None:
        """StopPodSandbox: its containers first. `announced`: the sandbox's end."""
        for container_id in self._pods.get(sandbox_id, ()):
            self.stop(container_id)
        self.end_sandbox(sandbox_id, announced=announced)

    def remove_pod(self, sandbox_id: str) -> None:
        """RemovePodSandbox: stops what is still running, removes containers, then the sandbox."""
        if sandbox_id not in self.sandboxes:
            return
        self.stop_pod(sandbox_id, announced=self.behaviour.stops_removed_pod)
        for container_id in self._pods[sandbox_id].copy():
            self._delete(container_id, announced=self.behaviour.deletes_inside_pod)
        if self.behaviour.sandbox_deleted:
            status = sandbox_id if self.behaviour.deleted_has_status else None
            self._announce(sandbox_id, EventType.DELETED, status)
        del self.sandboxes[sandbox_id], self._pods[sandbox_id]

    def end_sandbox(self, sandbox_id: str, *, announced: bool = True) -> None:
        """The sandbox's own process ends, if it has one; its containers run on."""
        sandbox = self.sandboxes.get(sandbox_id)
        if sandbox is not None and sandbox.state == cri.SANDBOX_READY:
            sandbox.state = cri.SANDBOX_NOTREADY
            self._cgroups.remove(sandbox.metadata.uid, sandbox_id)
            if announced:
                self._announce(sandbox_id, EventType.STOPPED, sandbox_id)

    def _end(self, container_id: str, state: ListedState, *, announced: bool = True) -> None:
        if record := self._in_state(container_id, state):
            self.containers[container_id] = replace(
                record, state=ListedState.EXITED, finished_at_ns=time.time_ns()
            )
            if announced:
                self._announce(container_id, EventType.STOPPED, record.sandbox_id)

    def _delete(self, container_id: str, *, announced: bool = True) -> None:
        if record := self.containers.pop(container_id, None):
            self._pods[record.sandbox_id].remove(container_id)
            if announced:
                self._announce(container_id, EventType.DELETED, record.sandbox_id)

    def _in_state(self, container_id: str, state: ListedState) -> ContainerRecord | None:
        record = self.containers.get(container_id)
        return record if record is not None and record.state is state else None

    def _uid(self, record: ContainerRecord) -> str:
        return self.sandboxes[record.sandbox_id].metadata.uid

    def _announce(self, object_id: str, event: EventType, sandbox_id: str | None) -> None:
        kind = ObjectKind.SANDBOX if object_id in self.sandboxes else ObjectKind.CONTAINER
        message = cri.ContainerEventResponse(
            container_id=object_id,
            container_event_type=cri.ContainerEventType.Name(event),
            created_at=time.time_ns(),
        )
        if sandbox_id is not None:
            its = self.sandboxes[sandbox_id]
            status = cri.PodSandboxStatus(id=its.id, metadata=its.metadata, state=its.state)
            message.pod_sandbox_status.CopyFrom(status)
            message.containers_statuses.extend(
                self.containers[each].status() for each in self._pods[sandbox_id]
            )
        flaw = self._spoil(message)
        notice = Notice(object_id, event, kind, message.SerializeToString(), flaw)
        if flaw is Flaw.OUT_OF_ORDER:
            self._late[object_id] = notice
            return
        losses = self.losses.total()
        self._send(notice)
        if (late := self._late.pop(object_id, None)) is not None:
            if self.losses.total() > losses:
                # The later one was lost, so this one is in order.
                self.wrong[Flaw.OUT_OF_ORDER] -= 1
                late = replace(late, flaw=None)
            self._send(late)

    def _send(self, notice: Notice) -> None:
        if self.up:
            if notice.type is EventType.CREATED and self.channel.subscribers:
                self._timed.add(notice.container_id)
            elif notice.type is EventType.DELETED:
                self._timed.discard(notice.container_id)
            self.outbox.post(notice)
        else:
            self.lose(notice)

    def _spoil(self, message: cri.ContainerEventResponse) -> Flaw | None:
        """Maybe add a flaw; the seed and the message's identity decide."""
        identity = f"{message.container_id}/{message.container_event_type}"
        rng = self.options.random(f"flaws/{identity}")
        if rng.random() >= self.options.flaws:
            return None
        flaw = rng.choice(possible(message, timed=message.container_id in self._timed))
        spoil(message, flaw)
        self.wrong[flaw] += 1
        return flaw


def _new_id(rng: random.Random) -> str:
    return f"{rng.getrandbits(256):064x}"
