"""Faults of single calls: refused, hanging, or answered with something else.

Scripts configure the next calls here. These faults are not part of the truth: foreign items or
bytes in an answer are not what the runtime knows.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum

import grpc

from exporter.cri import runtime_v1_pb2 as cri


class Method(Enum):
    """The CRI methods that are served."""

    VERSION = "Version"
    LIST_POD_SANDBOX = "ListPodSandbox"
    LIST_CONTAINERS = "ListContainers"
    STREAM_POD_SANDBOXES = "StreamPodSandboxes"
    STREAM_CONTAINERS = "StreamContainers"
    CONTAINER_STATUS = "ContainerStatus"
    GET_CONTAINER_EVENTS = "GetContainerEvents"


@dataclass(frozen=True, slots=True)
class Refusal:
    """How a call is refused."""

    code: grpc.StatusCode
    details: str


@dataclass(slots=True)
class CallFaults:
    """The faults of the next calls.

    `sandboxes`, `containers`: items added to every list, however malformed. `waiting`: number of
    calls that are hanging now.
    """

    sandboxes: list[cri.PodSandbox] = field(default_factory=list)
    containers: list[cri.Container] = field(default_factory=list)
    waiting: int = 0
    _refusals: dict[Method, list[Refusal]] = field(default_factory=dict)
    _replies: dict[Method, list[bytes]] = field(default_factory=dict)
    _hanging: dict[Method, asyncio.Event] = field(default_factory=dict)

    def refuse_next(
        self,
        times: int = 1,
        *methods: Method,
        code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE,
        details: str = "refused on purpose",
    ) -> None:
        """Refuse the next `times` calls of each of these methods (default: of every method).

        A streamed list is refused after its first message.
        """
        for method in methods or Method:
            self._refusals.setdefault(method, []).extend([Refusal(code, details)] * times)

    def reply_next(self, method: Method, payload: bytes) -> None:
        """Answer the next call of that method with these bytes instead."""
        self._replies.setdefault(method, []).append(payload)

    def hang(self, *methods: Method) -> None:
        """Make calls of these methods hang until `resume` or their own deadline."""
        for method in methods:
            self._hanging.setdefault(method, asyncio.Event())

    def resume(self) -> None:
        """Resume all hanging calls."""
        for gate in self._hanging.values():
            gate.set()
        self._hanging.clear()

    async def refusal(self, method: Method) -> Refusal | None:
        """How to refuse this call once it no longer hangs; None: serve it."""
        gate = self._hanging.get(method)
        if gate is not None:
            self.waiting += 1
            try:
                await gate.wait()
            finally:
                self.waiting -= 1
        refusals = self._refusals.get(method)
        return refusals.pop(0) if refusals else None

    def reply(self, method: Method) -> bytes | None:
        """The bytes to answer with instead; None: the real answer."""
        replies = self._replies.get(method)
        return replies.pop(0) if replies else None
