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

from conformance.circumstances import CREATE, RUN, START, owed
from conformance.cri_client import RUNS, More, Pods, Sandbox
from conformance.history import MAIN, Act, Case, Connected, Heard, History, Lists, Looked, Told
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.client import CriClient, Subscription
from exporter.cri.decode import CONTAINER_STATES, Decoder
from exporter.cri.lists import ListDecoder
from exporter.errors import CriError, ShadowPlegError
from exporter.model.events import Announcement, EventType, Listed, ListedState, ObjectKind

NAMESPACE: Final = "shadow-pleg-conformance"
_T = TypeVar("_T")
_TIMEOUT: Final = 60.0
_EVERY: Final = 0.1
# A stream that says nothing for so long has said all.
_QUIET: Final = 3.0
_PROBES: Final = 60
_TOLD: Final = 100


class PartError(ShadowPlegError):
    """A part cannot be played here; the message says why."""


class Listener:
    """A subscriber, which reads at once. `why`: why its stream ended; None while it has not."""

    def __init__(self, stage: "Stage", name: str, number: int) -> None:
        self.name = name
        self.last = time.monotonic()
        self.why: str | None = None
        self._stage = stage
        self._number = number
        self._client = CriClient(stage.socket, patient=True)
        self._decoder = Decoder()
        self._reading: asyncio.Task[None] | None = None

    async def come(self) -> None:
        """Subscribe; the runtime has the request when this returns."""
        asked = time.monotonic()
        subscription = self._client.subscribe(self._number, None)
        self._reading = asyncio.create_task(self._read(subscription))
        await self._client.version(_TIMEOUT)
        self._stage.rows.append(Connected(time.monotonic(), self.name, up=True, asked=asked))

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
        self._stage.rows.append(Connected(time.monotonic(), self.name, up=False, why=why))

    def _take(self, raw: bytes) -> None:
        self.last = now = time.monotonic()
        decoded = self._decoder.event(raw, now, time.time_ns(), self._number)
        if not isinstance(decoded, tuple):
            return
        fact, _ = decoded
        if fact.pod is None or fact.pod.namespace == NAMESPACE:
            statuses = pb.ContainerEventResponse.FromString(raw).containers_statuses
            told = tuple(
                Told(s.id, s.state, s.started_at, s.finished_at, s.exit_code, str(s.reason))
                for s in statuses
            )
            self._stage.rows.append(Heard(now, self.name, fact, told))
            if self.name == MAIN:
                self._stage.look(fact)


class Stage:
    """An async context manager: what was made is removed. `looking`: whether after each event."""

    def __init__(self, socket: Path, image: str) -> None:
        self.socket = socket
        self.history = History()
        self.rows = self.history.rows
        self.cri = Pods(socket, timeout=_TIMEOUT, namespace=NAMESPACE)
        self.looking = False
        self._image = image
        self._lists = CriClient(socket)
        self._decoder = ListDecoder()
        self._numbers = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.listeners: list[Listener] = []

    async def __aenter__(self) -> Self:
        about = await self._lists.version(_TIMEOUT)
        self.history.runtime, self.history.version = about.name, about.version
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for listener in self.listeners:
            await listener.leave()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(CriError, grpc.aio.AioRpcError):
            await self.clean()
        await self.cri.__aexit__()
        await self._lists.close()

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it beside, until the end at most."""
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
        """Remove what lies in our namespace, also of a run that was killed."""
        for item in await self.listed():
            if item.kind is ObjectKind.SANDBOX and item.pod and item.pod.namespace == NAMESPACE:
                pod = Sandbox(item.id, {}, {})
                await self.do(self.cri.stop_pod(pod), "StopPodSandbox", item.id, may_fail=True)
                await self.do(self.cri.remove_pod(pod), "RemovePodSandbox", item.id, may_fail=True)

    async def listen(self, name: str) -> Listener:
        """Another subscriber."""
        self._numbers += 1
        listener = Listener(self, name, self._numbers)
        self.listeners.append(listener)
        await listener.come()
        return listener

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
        while True:
            heard = {(each.id, each.fact.type) for each in self.history.heard()}
            if all((key, kind) in heard for key in keys for kind in owed(self.history, key, set())):
                return
            last = max([since, *(each.last for each in self.listeners)])
            if time.monotonic() - last > _QUIET:
                return
            await asyncio.sleep(_EVERY)

    def look(self, fact: Announcement) -> None:
        """See what lists and status show now, after that event."""
        if self.looking:
            self.background(self._look(fact.container_id, fact.type, fact.kind))

    async def _look(self, key: str, kind: EventType, of: ObjectKind | None) -> None:
        with suppress(grpc.aio.AioRpcError):
            if of is ObjectKind.SANDBOX:
                states = {0: ListedState.RUNNING, 1: ListedState.EXITED}
                number = (await self.cri.sandboxes()).get(key)
                self._saw(key, kind, "ListPodSandbox", number, states)
                return
            number = (await self.cri.containers()).get(key)
            self._saw(key, kind, "ListContainers", number, CONTAINER_STATES)
            try:
                number = (await self.cri.status(key)).state
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.NOT_FOUND:
                    raise
                number = None
            self._saw(key, kind, "ContainerStatus", number, CONTAINER_STATES)

    def _saw(
        self,
        key: str,
        kind: EventType,
        call: str,
        number: int | None,
        states: dict[int, ListedState],
    ) -> None:
        state = None if number is None else states.get(number, ListedState.UNKNOWN)
        self.rows.append(Looked(time.monotonic(), key, kind, call, state))

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
        name = f"{part}-{self._numbers}"
        pod = await self.do(self.cri.run_pod(name, **how), RUN)
        if pod is None:
            raise PartError("RunPodSandbox returns no id")
        self.history.cases[pod.id] = Case(part, pod.id)
        return pod

    async def container(
        self,
        pod: Sandbox,
        part: str,
        command: Sequence[str] = RUNS,
        *,
        start: bool = True,
        ends: tuple[int | None, str] = (None, ""),
        name: str = "",
        **more: Unpack[More],
    ) -> str:
        """Make a container of that part, and start it; `ends`: how it has to; `name`: its own."""
        self._numbers += 1
        attempt, name = (self._numbers, name) if name else (0, f"app-{self._numbers}")
        more.setdefault("image", self._image)
        created = await self.do(self.cri.create(pod, name, command, attempt, **more), CREATE)
        key = created or ""
        self.history.cases[key] = Case(part, pod.id, code=ends[0], reason=ends[1])
        if start:
            await self.do(self.cri.start(key), START, key)
            self.history.cases[key] = self.history.cases[key]._replace(ran=True)
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
        while time.monotonic() < until:
            status = await self.cri.status(key)
            if status.state == pb.CONTAINER_EXITED:
                return status
            await asyncio.sleep(_EVERY)
        raise PartError("a container that ends by itself runs on")

    async def end(self, pod: Sandbox, *keys: str) -> None:
        """Stop and remove containers and their pod, as a kubelet does."""
        for key in keys:
            await self.remove(key)
        await self.do(self.cri.stop_pod(pod), "StopPodSandbox", pod.id)
        await self.do(self.cri.remove_pod(pod), "RemovePodSandbox", pod.id)
