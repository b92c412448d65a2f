"""A runtime, what is done to it, and who listens: all of it goes into a history.

Pods are made in a Kubernetes namespace of our own, and nothing else is touched.
"""

import asyncio
import time
from collections.abc import Awaitable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self, TypeVar, Unpack

import grpc.aio

from conformance.cri_client import RUNS, More, Pods, Sandbox
from conformance.history import MAIN, Act, Case, Connected, Heard, History, Lists, Looked, Told
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.client import CriClient, Subscription
from exporter.cri.decode import CONTAINER_STATES, Decoder
from exporter.cri.lists import ListDecoder
from exporter.errors import CriError, ShadowPlegError
from exporter.model.events import Announcement, Listed, ListedState, ObjectKind

NAMESPACE: Final = "shadow-pleg-conformance"
_T = TypeVar("_T")
_TIMEOUT: Final = 60.0
_EVERY: Final = 0.1
# A stream that says nothing for so long has said all.
_QUIET: Final = 3.0
_PROBES: Final = 60
# Lists in a row without anything of ours.
_CLEAR: Final = 5
_TOLD: Final = 100
_SANDBOX_STATES: Final = {0: ListedState.RUNNING, 1: ListedState.EXITED}


class PartError(ShadowPlegError):
    """A part cannot be played here; the message says why."""


class Listener:
    """A subscriber, which reads at once. `why`: why its stream ended; None while it has not."""

    def __init__(self, stage: "Stage", name: str, number: int) -> None:
        self.last = time.monotonic()
        self.why: str | None = None
        self._name, self._stage, self._number = name, stage, number
        self._client = CriClient(stage.socket, patient=True)
        self._decoder = Decoder()
        self._reading: asyncio.Task[None] | None = None

    async def come(self) -> None:
        """Subscribe; the runtime has the request when this returns."""
        self._stage.rows.append(Connected(time.monotonic(), self._name, up=True))
        subscription = self._client.subscribe(self._number, None)
        self._reading = asyncio.create_task(self._read(subscription))
        await self._client.version(_TIMEOUT)

    async def leave(self) -> None:
        """End the subscription and the connection."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._client.close()
        if self.why is None:
            self._over("")

    async def _read(self, subscription: Subscription) -> None:
        try:
            await subscription.read(self._take)
            self._over("eof")
        except CriError as error:
            self._over(error.reason)

    def _over(self, why: str) -> None:
        self.why = why
        self._stage.rows.append(Connected(time.monotonic(), self._name, up=False, why=why))

    def _take(self, raw: bytes) -> None:
        if heard := heard_of(raw, self._decoder, self._name, self._number):
            self._stage.rows.append(heard)
            if self._name == MAIN and self._stage.looking:
                self._stage.background(self._stage.look(heard.fact))
        self.last = time.monotonic()


def heard_of(raw: bytes, decoder: Decoder, stream: str, number: int) -> Heard | None:
    """An event as it came now; None if it is of another namespace, or cannot be read."""
    now = time.monotonic()
    decoded = decoder.event(raw, now, time.time_ns(), number)
    if not isinstance(decoded, tuple):
        return None
    fact, _ = decoded
    if fact.pod is not None and fact.pod.namespace != NAMESPACE:
        return None
    statuses = pb.ContainerEventResponse.FromString(raw).containers_statuses
    told = tuple(Told(each.id, each.state, each.started_at) for each in statuses)
    return Heard(now, stream, fact, told)


class Stage:
    """An async context manager: what was made is removed. `looking`: whether after each event."""

    def __init__(self, socket: Path, image: str) -> None:
        self.socket = socket
        self.history = History()
        self.rows = self.history.rows
        self.cri = Pods(socket, timeout=_TIMEOUT, namespace=NAMESPACE)
        self.looking = False
        self.listeners: list[Listener] = []
        self._image = image
        self._lists = CriClient(socket)
        self._decoder = ListDecoder()
        self._numbers = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        about = await self._lists.version(_TIMEOUT)
        self.history.runtime, self.history.version = about.name, about.version
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for listener in self.listeners:
            await listener.leave()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(CriError):
            await self.clean()
        await self.cri.__aexit__()
        await self._lists.close()

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it beside, until the end at most."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def listed(self) -> list[Listed]:
        """All that the runtime lists now, others' pods too; ours go into the history."""
        raw = await self._lists.lists(_TIMEOUT)
        items = self._decoder.items(raw.sandboxes, raw.containers)
        ours = tuple(i for i in items if i.pod and i.pod.namespace == NAMESPACE)
        self.rows.append(Lists(raw.requested, time.monotonic(), ours))
        return items

    async def relist(self) -> None:
        """List again and again."""
        while True:
            with suppress(CriError):
                await self.listed()
            await asyncio.sleep(_EVERY)

    async def clean(self) -> None:
        """Remove what lies in our namespace, also of a run that was killed.

        What was being made when its call was cancelled may be listed a moment later.
        """
        until, clear = time.monotonic() + _TIMEOUT, 0
        while clear < _CLEAR and time.monotonic() < until:
            items = (i for i in await self.listed() if i.kind is ObjectKind.SANDBOX)
            ours = [i.id for i in items if i.pod and i.pod.namespace == NAMESPACE]
            for key in ours:
                with suppress(PartError):
                    await self.end(Sandbox(key, {}, {}))
            clear = 0 if ours else clear + 1
            await asyncio.sleep(_EVERY)

    async def listen(self, name: str) -> Listener:
        """Another subscriber."""
        self._numbers += 1
        listener = Listener(self, name, self._numbers)
        self.listeners.append(listener)
        await listener.come()
        return listener

    async def leave(self, *listeners: Listener) -> None:
        """These listen no longer."""
        for each in listeners:
            self.listeners.remove(each)
            await each.leave()

    async def served(self, *listeners: Listener) -> None:
        """Make something happen until each of them has heard something: gRPC does not tell."""
        begun = time.monotonic()
        pod = await self.pod("probe")
        for _ in range(_PROBES):
            await self.remove(await self.container(pod, "probe", start=False))
            await asyncio.sleep(_EVERY / 2)
            if all(each.last > begun or each.why is not None for each in listeners):
                break
        await self.end(pod)

    async def settled(self, *parts: str) -> None:
        """Wait until what is owed was heard, or nothing comes any more."""
        since = time.monotonic()
        keys = [key for part in parts for key in self.history.of(part)]
        while time.monotonic() - max([since, *(each.last for each in self.listeners)]) < _QUIET:
            heard = self.history.kinds_by_id()
            if all(heard.get(k, set()).issuperset(self.history.owed(k, over=False)) for k in keys):
                return
            await asyncio.sleep(_EVERY)

    async def look(self, fact: Announcement) -> None:
        """See what lists and status show now, after that event."""
        key, of_pods = fact.container_id, fact.kind is ObjectKind.SANDBOX
        call = self.cri.sandboxes if of_pods else self.cri.containers
        states = _SANDBOX_STATES if of_pods else CONTAINER_STATES

        def saw(name: str, number: int | None) -> None:
            state = None if number is None else states.get(number, ListedState.UNKNOWN)
            self.rows.append(Looked(time.monotonic(), key, fact.type, name, state))

        try:
            saw("ListPodSandbox" if of_pods else "ListContainers", (await call()).get(key))
            if not of_pods:
                saw("ContainerStatus", (await self.cri.status(key)).state)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                saw("ContainerStatus", None)

    async def do(
        self, call: Awaitable[_T], name: str, key: str = "", *, may_fail: bool = False
    ) -> _T | None:
        """Await a call and note it; PartError if it fails and may not."""
        began, error, answer = time.monotonic(), "", None
        try:
            answer = await call
        except grpc.aio.AioRpcError as failure:
            details = failure.details() or ""
            # Of an error in an error the innermost comes last.
            details = details if len(details) <= _TOLD else f"... {details[-_TOLD:]}"
            error = f"{failure.code().name}: {details}"
        now = time.monotonic()
        made = answer.id if isinstance(answer, Sandbox) else answer
        self.rows.append(Act(now, now - began, name, key or str(made), error))
        if error and not may_fail:
            raise PartError(f"{name} fails: {error}")
        return answer

    async def pod(self, part: str, **how: Any) -> Sandbox:  # noqa: ANN401 - of run_pod
        """Run a pod of that part."""
        self._numbers += 1
        pod = await self.do(self.cri.run_pod(f"{part}-{self._numbers}", **how), "RunPodSandbox")
        assert pod is not None  # noqa: S101 - else it had failed
        self.history.cases[pod.id] = Case(part, pod.id)
        return pod

    async def container(
        self,
        pod: Sandbox,
        part: str,
        command: Sequence[str] = RUNS,
        *,
        start: bool = True,
        name: str = "",
        **more: Unpack[More],
    ) -> str:
        """Make a container of that part, and start it; `name`: one that others of its pod have."""
        self._numbers += 1
        attempt, name = (self._numbers, name) if name else (0, f"app-{self._numbers}")
        more.setdefault("image", self._image)
        call = self.cri.create(pod, name, command, attempt, **more)
        key = str(await self.do(call, "CreateContainer"))
        self.history.cases[key] = Case(part, pod.id)
        if start:
            await self.do(self.cri.start(key), "StartContainer", key)
            self.history.cases[key] = Case(part, pod.id, ran=True)
        return key

    async def stop(self, key: str, grace: int = 0) -> None:
        """Stop a container."""
        await self.do(self.cri.stop(key, grace), "StopContainer", key)

    async def remove(self, key: str) -> None:
        """Remove a container."""
        await self.do(self.cri.remove(key), "RemoveContainer", key)

    async def ended(self, key: str) -> pb.ContainerStatus:
        """Its status, once it has ended by itself; PartError if it does not."""
        until = time.monotonic() + _TIMEOUT
        while (status := await self.cri.status(key)).state != pb.CONTAINER_EXITED:
            if time.monotonic() > until:
                raise PartError("a container that ends by itself runs on")
            await asyncio.sleep(_EVERY)
        return status

    async def end(self, pod: Sandbox, *keys: str, stop: bool = True) -> None:
        """Remove containers, stop and remove their pod, as a kubelet does."""
        for key in keys:
            await self.remove(key)
        if stop:
            await self.do(self.cri.stop_pod(pod), "StopPodSandbox", pod.id)
        await self.do(self.cri.remove_pod(pod), "RemovePodSandbox", pod.id)
