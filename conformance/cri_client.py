"""Calls of the CRI that make pods and containers on a real runtime; errors are `AioRpcError`.

Messages are encoded by hand, by the field numbers of runtime.v1: the exporter's own have no
actions.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeAlias

from google.protobuf.unknown_fields import UnknownFieldSet

from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.client import channel_to

RUNS: Final = ("/bin/sleep", "infinity")
# Protobuf's type of a field that has a length.
_DELIMITED: Final = 2

# A message by its field numbers. An iterable is a repeated field, bytes are any text.
_Text: TypeAlias = str | bytes
Fields: TypeAlias = Mapping[int, "int | _Text | Fields | Iterable[_Text | Fields]"]
# The network is the node's, which needs no CNI plugin, and the process namespace the container's
# own, which is what the kubelet asks for.
_NAMESPACES: Final[Fields] = {1: 2, 2: 1}


def encoded(fields: Fields) -> bytes:
    """The bytes of that message."""
    out = bytearray()
    for number, value in fields.items():
        if isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
            continue
        for each in (value,) if isinstance(value, str | bytes | Mapping) else value:
            content = encoded(each) if isinstance(each, Mapping) else each
            content = content.encode() if isinstance(content, str) else content
            out += _varint(number << 3 | _DELIMITED) + _varint(len(content)) + content
    return bytes(out)


def decoded(message: bytes) -> dict[int, Any]:
    """The last value of each field of a message, parsed as a message that knows no field."""
    unknown = UnknownFieldSet(pb.GetEventsRequest.FromString(message))
    return {each.field_number: each.data for each in unknown}  # type: ignore[attr-defined] # not in the stubs


def entries(pairs: Mapping[str, str]) -> list[Fields]:
    """A map of texts: a repeated message of key and value."""
    return [{1: key, 2: value} for key, value in pairs.items()]


def _varint(value: int) -> bytes:
    """The varint of a number that is not negative."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Sandbox(NamedTuple):
    """A pod sandbox, and the configuration that it was run with: CreateContainer needs it again."""

    id: str
    config: tuple[Any, ...] = ()


class Calls:
    """Calls over `socket`, each within `timeout` seconds; an async context manager."""

    def __init__(self, socket: Path, timeout: float) -> None:
        self._channel = channel_to(socket, patient=False)
        self._timeout = timeout

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._channel.close(None)

    async def call(self, method: str, request: Fields) -> bytes:
        """Make any call; returns its answer."""
        service = "ImageService" if "Image" in method else "RuntimeService"
        call = self._channel.unary_unary(f"/runtime.v1.{service}/{method}")
        answer: bytes = await call(encoded(request), timeout=self._timeout)
        return answer

    async def run_pod_of(
        self, name: str, namespace: str, uid: str, *more: Fields, handler: str = ""
    ) -> Sandbox:
        """Run a sandbox, usually on the node's network; `more`: more of its configuration."""
        about = {"name": name, "namespace": namespace, "uid": uid}
        ours: Fields = {
            1: {1: name, 2: uid, 3: namespace},
            6: entries({f"io.kubernetes.pod.{key}": text for key, text in about.items()}),
            8: {2: {1: _NAMESPACES}},
        }
        # Protobuf merges the pieces of a message.
        config = (ours, *more)
        return Sandbox(id_of(await self.call("RunPodSandbox", {1: config, 2: handler})), config)

    async def create_in(
        self, sandbox: Sandbox, name: str | bytes, command: Sequence[str], *more: Fields
    ) -> str:
        """Create a container and return its id; `more`: more of its configuration.

        `name`: bytes are sent as they are, and become no label.
        """
        labels = {"io.kubernetes.container.name": name} if isinstance(name, str) else {}
        ours: Fields = {
            1: {1: name},
            3: command,
            9: [*sandbox.config[0][6], *entries(labels)],
            15: {2: {3: _NAMESPACES}},
        }
        request: Fields = {1: sandbox.id, 2: (ours, *more), 3: sandbox.config}
        return id_of(await self.call("CreateContainer", request))

    async def stop(self, container: str, grace: int = 0) -> None:
        """Stop a container: SIGTERM, then SIGKILL after `grace` seconds."""
        await self.call("StopContainer", {1: container, 2: grace})

    async def remove(self, container: str) -> None:
        """Remove a container; the runtime kills it if it still runs."""
        await self.call("RemoveContainer", {1: container})

    async def status(self, container: str) -> pb.ContainerStatus:
        """What the runtime says of a container."""
        answer = await self.call("ContainerStatus", {1: container})
        return pb.ContainerStatusResponse.FromString(answer).status

    async def containers(self) -> dict[str, int]:
        """Return the state (as pb.CONTAINER_RUNNING) of each listed container."""
        answer = pb.ListContainersResponse.FromString(await self.call("ListContainers", {}))
        return {item.id: item.state for item in answer.containers}


def id_of(answer: bytes) -> str:
    """The id in an answer: its first field, a text."""
    text: bytes = decoded(answer)[1]
    return text.decode()
