"""A runtime, the calls to it and its subscribers; everything goes into a history.

Pods are made in our own Kubernetes namespace, and nothing else is touched.
"""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

import grpc.aio

from conformance.cri_client import RUNS, Calls, Fields, Sandbox, id_of
from conformance.history import Act, Case, Connected, Heard, History, Shown
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.client import TIMED_OUT, CriClient, Subscription
from exporter.cri.decode import Decoder
from exporter.cri.lists import ListDecoder
from exporter.errors import CriError, ShadowPlegError
from exporter.model.events import Announcement, EventType, Listed, ObjectKind
from exporter.model.facts import Relist
from exporter.model.labels import EOF
from exporter.pleg.relist import Lists

_T = TypeVar("_T")

NAMESPACE: Final = "shadow-pleg-conformance"
CREATED, STARTED, STOPPED, DELETED = EventType
# Timeout of a call in seconds: twelve times what a call takes on a busy machine.
_TIMEOUT: Final = 60.0
TICK: Final = 0.1
# After so many lists, one each `TICK`, an event is given up: later than `exit-delay` allows.
_PATIENCE: Final = 110
# Each makes two events. Subscribers that left may take the first thousand (containerd 1.7).
_PROBES: Final = 600
# Later than any state of the CRI.
_GONE: Final = pb.CONTAINER_UNKNOWN + 1
_TOLD: Final = 100


class PartError(ShadowPlegError):
    """A part cannot be played here; the message says why."""


class Listener:
    """A subscriber; a `frozen` one does not read. `why`: why its stream ended; None if open."""

    def __init__(self, stage: "Stage", name: str, *, frozen: bool = False) -> None:
        self.last = time.monotonic()
        self.why: str | None = None
        self._thawed = asyncio.Event()
        self.name, self._stage, self._number = name, stage, next(stage.numbers)
        self._decoder = Decoder()
        self.client = CriClient(stage.socket)
        subscription = self.client.subscribe(self._number, lease=None)
        self._reading = asyncio.create_task(self._read(subscription))
        self._note("it does not read" if frozen else "")
        if not frozen:
            self._thawed.set()

    def thaw(self) -> None:
        """Begin to read."""
        self._note("it reads now")
        self._thawed.set()

    async def leave(self) -> None:
        """End the subscription and the connection."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self.client.close()
        if self.why is None:
            self._note("", up=False)

    async def _read(self, subscription: Subscription) -> None:
        await self._thawed.wait()
        why = EOF
        try:
            await subscription.read(self._take)
        except CriError as error:
            why = error.reason
        self._note(why, up=False)

    def _note(self, why: str, *, up: bool = True) -> None:
        self.why = None if up else why
        self._stage.rows.append(Connected(time.monotonic(), self.name, up, why))

    def _take(self, raw: bytes) -> None:
        self.last = now = time.monotonic()
        decoded = self._decoder.event(raw, now, time.time_ns(), self._number)
        if not isinstance(decoded, tuple) or not _is_ours(decoded[0]):
            return
        statuses = pb.ContainerEventResponse.FromString(raw).containers_statuses
        self._stage.rows.append(Heard(now, self.name, decoded[0], tuple(statuses)))
        if self._stage.looking and decoded[0].kind is ObjectKind.CONTAINER:
            self._stage.beside(self._stage.look(decoded[0]))


def _is_ours(what: Announcement | Listed) -> bool:
    """Whether it is of our own pods; an event without a pod may be, as its id shows later."""
    if what.pod is None:
        return isinstance(what, Announcement)
    return what.pod.namespace == NAMESPACE


class Stage(Calls):
    """Our own pods, and the subscribers: an async context manager, which on exit removes the pods.

    Calls that change something are noted in `history`. `looking`: whether to `look` after each
    event. `is_clear`: on exit, whether the pods are removed.
    """

    def __init__(self, socket: Path, image: str, history: History) -> None:
        super().__init__(socket, _TIMEOUT)
        self.socket = socket
        self.history, self.rows = history, history.rows
        self.is_clear = False
        self.looking = False
        self.listeners: list[Listener] = []
        self.numbers = count()
        self._image = image
        self._decoder = ListDecoder()
        self._listed = Lists()
        self._lists = deque([0.0], maxlen=_PATIENCE)
        self._tasks: list[asyncio.Task[None]] = []
        self._works: set[asyncio.Task[Any]] = set()

    async def __aexit__(self, *_exc: object) -> None:
        why = "another signal came"
        try:
            await self.leave(*self.listeners)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, *self._works, return_exceptions=True)
            await self.clean()
            self.is_clear = True
        except CriError as error:
            why = str(error)
        finally:
            if not self.is_clear:
                sys.stderr.write(f"pods may be left, run it again: {why}\n")
        await super().__aexit__()

    async def call(self, method: str, request: Fields) -> bytes:
        """Make a call. CriError has the end of the details: the innermost error comes last.

        It is made `to_end`: a container whose start is cancelled may run on, and cannot be removed
        (containerd#11037).
        """
        began, error = time.monotonic(), ""
        call = super().call(method, request)
        key: Any = request.get(1, "")
        while not isinstance(key, str):
            key = key[0] if isinstance(key, tuple) else key[1]
        is_act = not method.startswith("List") and not method.endswith("Status")
        try:
            # A pull takes long, and changes no pod.
            answer = await (call if "Image" in method else self.to_end(call))
            key = id_of(answer) if method in ("RunPodSandbox", "CreateContainer") else key
        except grpc.aio.AioRpcError as failure:
            code, details = failure.code().name, failure.details() or ""
            error = f"{code}: {'... ' * (len(details) > _TOLD)}{details[-_TOLD:]}"
            is_act |= code.lower() == TIMED_OUT
            raise CriError(code.lower(), f"{method} fails: {error}") from None
        finally:
            if is_act:
                self.rows.append(Act(began, time.monotonic() - began, method, key, error))
        return answer

    async def to_end(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Do the work; if this is cancelled, it goes on, and ends before the pods are removed."""
        task = asyncio.create_task(work)
        self._works.add(task)
        task.add_done_callback(self._works.discard)
        return await asyncio.shield(task)

    def beside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do the work in the background; it is cancelled on exit."""
        self._tasks.append(asyncio.create_task(work))
        return self._tasks[-1]

    async def listed(self) -> list[Listed]:
        """Everything that the runtime lists now; our own pods go into the history."""
        begun = time.monotonic()
        # In the kubelet's order.
        lists = [[await self.call(f"List{each}", {})] for each in ("PodSandbox", "Containers")]
        items = self._decoder.items(*lists)
        ours = [*filter(_is_ours, items)]
        difference = self._listed.difference(ours)
        self.rows.append(Relist(begun, time.monotonic(), len(ours), *difference))
        return items

    async def relist(self) -> None:
        """List again and again, until cancelled."""
        while True:
            with suppress(CriError):
                await self.listed()
                self._lists.append(time.monotonic())
            await asyncio.sleep(TICK)

    async def clean(self) -> None:
        """Remove everything in our own namespace, also what a killed run left.

        CriError if the runtime does not answer, or still lists something after `_TIMEOUT` seconds.
        """
        until, why = time.monotonic() + _TIMEOUT, ""
        while ours := [
            item
            for item in await self.listed()
            # The pod of a container may be gone.
            if _is_ours(item) or item.sandbox_id in self.history.cases
        ]:
            if time.monotonic() > until:
                raise CriError(TIMED_OUT, f"{ours[0].id} is still listed: {why}")
            for item in ours:
                is_pod = item.kind is ObjectKind.SANDBOX
                try:
                    await (self.end(Sandbox(item.id)) if is_pod else self.remove(item.id))
                except CriError as error:
                    why = str(error)
            await asyncio.sleep(TICK)

    async def listen(self, name: str, *, frozen: bool = False) -> Listener:
        """Add a subscriber."""
        listener = Listener(self, name, frozen=frozen)
        self.listeners.append(listener)
        # Once the runtime answers the next call, it has the subscription.
        about = await listener.client.version(_TIMEOUT)
        self.history.runtime, self.history.version = about.name, about.version
        return listener

    async def leave(self, *listeners: Listener) -> None:
        """End these subscriptions."""
        for each in listeners:
            self.listeners.remove(each)
            await each.leave()

    async def served(self, *listeners: Listener) -> None:
        """Make events until each listener has heard one: gRPC does not tell when a stream is up."""
        begun = time.monotonic()
        pod = await self.pod("probe")
        for _ in range(_PROBES):
            await self.remove(await self.container(pod, start=False))
            await asyncio.sleep(TICK / 2)
            if all(each.last > begun or each.why is not None for each in listeners):
                break
        await self.end(pod)

    async def settled(self, *parts: str) -> None:
        """Wait until each subscriber has heard what these parts owe, or it is given up.

        Lists since the last call count, not seconds: who stalls is late with them, too.
        """
        while any(
            life.missing and max(act.at + act.took for act in life.acts.values()) > self._lists[0]
            for each in self.listeners
            for life in self.history.of(parts, each.name)
        ):
            await self.call("ListPodSandbox", {})
            await asyncio.sleep(TICK)

    async def look(self, fact: Announcement) -> None:
        """Note what the list and the status show now, after that event."""
        key, state = fact.container_id, _GONE
        self._look(key, fact.type, "ListContainers", (await self.containers()).get(key, _GONE))
        with suppress(CriError):
            state = (await self.status(key)).state
        self._look(key, fact.type, "ContainerStatus", state)

    def _look(self, key: str, since: EventType, call: str, state: int) -> None:
        named = "nothing" if state == _GONE else pb.ContainerState.Name(state)
        self.show("list_follows", f"after {since.name}, {call} shows {named}", state < since, key)

    def show(self, of: str, text: str, wrong: bool, key: str = "") -> None:  # noqa: FBT001 - what it is
        """Note what something other than an event showed."""
        self.rows.append(Shown(time.monotonic(), key, of, text, wrong))

    async def pod(self, part: str, *more: Fields, handler: str = "", name: str = "") -> Sandbox:
        """Run a pod for that part."""
        name = name or f"{part}-{next(self.numbers)}"
        pod = await self.run_pod_of(name, NAMESPACE, str(uuid4()), *more, handler=handler)
        self.history.cases[pod.id] = Case(part, pod.id)
        return pod

    async def container(
        self,
        pod: Sandbox,
        command: Sequence[str] = RUNS,
        *,
        start: bool = True,
        name: str = "",
        more: Sequence[Fields] = (),
    ) -> str:
        """Make a container in a pod, and start it; `name`: one that others in the pod may have."""
        number = next(self.numbers)
        ours: Fields = {1: {2: number}, 2: {1: self._image, 18: self._image}}
        key = await self.create_in(pod, name or f"app-{number}", command, ours, *more)
        self.history.cases[key] = self.history.cases[pod.id]._replace(owed=(CREATED, DELETED))
        if start:
            try:
                await self.call("StartContainer", {1: key})
            except CriError:
                if (await self.containers()).get(key) == pb.CONTAINER_EXITED:
                    self._look(key, CREATED, "ListContainers", pb.CONTAINER_EXITED)
                    self.note(key, owed=(CREATED, STOPPED, DELETED))
                raise
            self.note(key, owed=tuple(EventType))
        return key

    def note(self, key: str, **how: Any) -> None:  # noqa: ANN401 - of a Case
        """Change the case of a container or sandbox."""
        self.history.cases[key] = self.history.cases[key]._replace(**how)

    async def ended(self, key: str) -> pb.ContainerStatus:
        """The container's status, once it has ended by itself; PartError if it does not end."""
        until = time.monotonic() + _TIMEOUT
        while (status := await self.status(key)).state != pb.CONTAINER_EXITED:
            if time.monotonic() > until:
                raise PartError("a container that ends by itself runs on")
            await asyncio.sleep(TICK)
        return status

    async def end(self, pod: Sandbox, *keys: str, stop: bool = True) -> None:
        """Remove containers, then stop and remove their pod, as a kubelet does."""
        for key in keys:
            await self.remove(key)
        if stop:
            await self.call("StopPodSandbox", {1: pod.id})
        await self.call("RemovePodSandbox", {1: pod.id})
