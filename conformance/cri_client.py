"""Makes pods live and die on a real runtime over its CRI socket; errors are `AioRpcError`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self
from uuid import NAMESPACE_OID, uuid5

from conformance.wire import Fields, decoded, encoded, entries
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.client import channel_to

# `.invalid` never resolves (RFC 2606): to pull this image fails, instead of asking the network.
IMAGE = "grounds.invalid/busybox:1"
RUNS = ("/bin/sleep", "infinity")
# StartContainer fails with this one: the image holds no such file.
CANNOT_START = ("/no/such/command",)

CREATED, RUNNING, EXITED = 0, 1, 2

# Messages are written by the field numbers of runtime.v1: the exporter has none for actions.
# The network is the node's, which needs no CNI plugin, and the process namespace the container's
# own, which is what the kubelet asks for.
_NAMESPACES: Final[Fields] = {1: 2, 2: 1}
NOTHING: Final[Fields] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A pod sandbox; CreateContainer wants the configuration it was run with once more."""

    id: str
    config: tuple[Fields, ...]
    labels: Mapping[str, str]


class Pods:
    """CRI actions over `socket`; an async context manager. Pods live below `cgroup_parent`.

    Their cgroups are named as the kubelet's driver for `systemd` does, or the other one. They are
    of that `namespace` of Kubernetes.
    """

    def __init__(
        self,
        socket: Path,
        *,
        cgroup_parent: str = "",
        systemd: bool = False,
        # A command that tried to write to every mount took over 30 s on a busy machine, and calls
        # hang for 70 s while a subscriber of the tests does not read.
        timeout: float = 300,
        namespace: str = "default",
    ) -> None:
        self._channel = channel_to(socket, patient=False)
        self._cgroup_parent = cgroup_parent
        self._systemd = systemd
        self._timeout = timeout
        self._namespace = namespace

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._channel.close(None)

    def cgroup(self, pod: str) -> str:
        """The cgroup of a pod of that name, from the root on; "" where the runtime chooses."""
        uid = self._uid(pod)
        name = f"kubepods-pod{uid.replace('-', '_')}.slice" if self._systemd else f"pod{uid}"
        return self._cgroup_parent and f"{self._cgroup_parent}/{name}"

    async def run_pod(self, name: str, handler: str = "", more: Fields = NOTHING) -> Sandbox:
        """Run a sandbox, usually on the node's network; `more`: of its configuration."""
        uid = self._uid(name)
        labels = {
            "io.kubernetes.pod.name": name,
            "io.kubernetes.pod.namespace": self._namespace,
            "io.kubernetes.pod.uid": uid,
        }
        ours: Fields = {
            1: {1: name, 2: uid, 3: self._namespace},
            6: entries(labels),
            8: {1: self.cgroup(name), 2: {1: _NAMESPACES}},
        }
        # Of one message in several pieces, protobuf makes one.
        config = (ours, more)
        return Sandbox(
            id_of(await self.call("RunPodSandbox", {1: config, 2: handler})), config, labels
        )

    async def stop_pod(self, sandbox: Sandbox) -> None:
        """Stop a sandbox and what runs in it."""
        await self.call("StopPodSandbox", {1: sandbox.id})

    async def remove_pod(self, sandbox: Sandbox) -> None:
        """Remove a sandbox and its containers."""
        await self.call("RemovePodSandbox", {1: sandbox.id})

    async def create(
        self,
        sandbox: Sandbox,
        name: str | bytes,
        command: Sequence[str] = RUNS,
        attempt: int = 0,
        more: Fields = NOTHING,
    ) -> str:
        """Create a container and return its id; it runs until stopped unless `command` ends.

        `name`: bytes are sent as they are, and label nothing. `more`: of its configuration.
        """
        labels = {"io.kubernetes.container.name": name} if isinstance(name, str) else {}
        ours: Fields = {
            1: {1: name, 2: attempt},
            2: {1: IMAGE},
            3: command,
            9: entries({**sandbox.labels, **labels}),
            15: {2: {3: _NAMESPACES}},
        }
        request: Fields = {1: sandbox.id, 2: (ours, more), 3: sandbox.config}
        return id_of(await self.call("CreateContainer", request))

    async def start(self, container: str) -> None:
        """Start a created container."""
        await self.call("StartContainer", {1: container})

    async def stop(self, container: str, grace: int = 0) -> None:
        """Stop a container: SIGTERM, and SIGKILL after so many seconds."""
        await self.call("StopContainer", {1: container, 2: grace})

    async def execute(self, container: str, *command: str) -> tuple[int, str]:
        """Run a command in a container; its exit code, and what it wrote to stdout."""
        answer = decoded(await self.call("ExecSync", {1: container, 2: command}))
        return answer.get(3, 0), answer.get(1, b"").decode()

    async def status(self, container: str) -> pb.ContainerStatus:
        """What the runtime says of a container."""
        answer = await self.call("ContainerStatus", {1: container})
        return pb.ContainerStatusResponse.FromString(answer).status

    async def remove(self, container: str) -> None:
        """Remove a container, killing it when it still runs."""
        await self.call("RemoveContainer", {1: container})

    async def sandboxes(self) -> dict[str, int]:
        """Return the state (0 is READY, 1 NOTREADY) of each listed sandbox."""
        answer = await self.call("ListPodSandbox", {})
        return {item.id: item.state for item in pb.ListPodSandboxResponse.FromString(answer).items}

    async def containers(self) -> dict[str, int]:
        """Return the state (CREATED, RUNNING, EXITED) of each listed container."""
        answer = pb.ListContainersResponse.FromString(await self.call("ListContainers", {}))
        return {item.id: item.state for item in answer.containers}

    async def has_image(self, image: str) -> bool:
        """Whether the runtime's CRI side knows that image."""
        # The answer has no field where it does not.
        return bool(await self.call("ImageStatus", {1: {1: image}}))

    def _uid(self, pod: str) -> str:
        # No two runtimes of a machine have the same one: a stray is recognized by it.
        return str(uuid5(NAMESPACE_OID, f"{self._cgroup_parent}/{pod}"))

    async def call(self, method: str, request: Fields) -> bytes:
        """Any call, and its answer."""
        service = "ImageService" if "Image" in method else "RuntimeService"
        call = self._channel.unary_unary(f"/runtime.v1.{service}/{method}")
        answer: bytes = await call(encoded(request), timeout=self._timeout)
        return answer


def id_of(answer: bytes) -> str:
    """The first field of an answer, a text."""
    text: bytes = decoded(answer)[1]
    return text.decode()
