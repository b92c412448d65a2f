"""Make pods live and die on a real runtime over its CRI socket; errors are `AioRpcError`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from uuid import NAMESPACE_OID, uuid5

import grpc.aio
from google.protobuf.message import Message

from testbed import cri_actions_pb2 as cri
from testbed.image import IMAGE

RUNS = ("/bin/sleep", "infinity")
# StartContainer fails with this one: the image holds no such file.
CANNOT_START = ("/no/such/command",)

CREATED, RUNNING, EXITED = 0, 1, 2

# The node network needs no CNI plugin; a process namespace of its own is what the kubelet asks for.
HOST_NETWORK = cri.NamespaceOption(network=cri.NODE, pid=cri.CONTAINER)
OPTIONS = (
    # Channels share connections, and so their back-off, unless told not to: a runtime that is up
    # again would look down for long.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A pod sandbox; CreateContainer wants the configuration it was run with once more."""

    id: str
    config: cri.PodSandboxConfig


class Pods:
    """CRI actions over `socket`; an async context manager. Pods live below `cgroup_parent`."""

    def __init__(self, socket: Path, *, cgroup_parent: str = "", timeout: float = 30) -> None:
        self._channel = grpc.aio.insecure_channel(f"unix://{socket}", options=OPTIONS)
        self._cgroup_parent = cgroup_parent
        self._timeout = timeout

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._channel.close(None)

    async def run_pod(
        self, name: str, *, annotations: Mapping[str, str] | None = None, handler: str = ""
    ) -> Sandbox:
        """Run a sandbox on the node's network."""
        # No two runtimes of a machine have the same one: a stray is recognized by it.
        uid = str(uuid5(NAMESPACE_OID, f"{self._cgroup_parent}/{name}"))
        metadata = cri.PodSandboxMetadata(name=name, uid=uid, namespace="default")
        config = cri.PodSandboxConfig(
            metadata=metadata,
            labels=_pod_labels(metadata),
            annotations=annotations or {},
            linux=cri.LinuxPodSandboxConfig(
                # As the kubelet names it.
                cgroup_parent=self._cgroup_parent and f"{self._cgroup_parent}/pod{uid}",
                security_context=cri.LinuxSandboxSecurityContext(namespace_options=HOST_NETWORK),
            ),
        )
        request = cri.RunPodSandboxRequest(config=config, runtime_handler=handler)
        response = await self._call("RunPodSandbox", request, cri.RunPodSandboxResponse)
        return Sandbox(response.pod_sandbox_id, config)

    async def stop_pod(self, sandbox: Sandbox) -> None:
        """Stop a sandbox and what runs in it."""
        await self._call("StopPodSandbox", cri.PodSandboxRequest(pod_sandbox_id=sandbox.id))

    async def remove_pod(self, sandbox: Sandbox) -> None:
        """Remove a sandbox and its containers."""
        await self._call("RemovePodSandbox", cri.PodSandboxRequest(pod_sandbox_id=sandbox.id))

    async def create(self, sandbox: Sandbox, name: str, command: Sequence[str] = RUNS) -> str:
        """Create a container and return its id; it runs until stopped unless `command` ends."""
        config = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name=name),
            image=cri.ImageSpec(image=IMAGE),
            command=command,
            labels=_pod_labels(sandbox.config.metadata) | {"io.kubernetes.container.name": name},
            linux=cri.LinuxContainerConfig(
                security_context=cri.LinuxContainerSecurityContext(namespace_options=HOST_NETWORK)
            ),
        )
        request = cri.CreateContainerRequest(
            pod_sandbox_id=sandbox.id, config=config, sandbox_config=sandbox.config
        )
        response = await self._call("CreateContainer", request, cri.CreateContainerResponse)
        return str(response.container_id)

    async def start(self, container: str) -> None:
        """Start a created container."""
        await self._call("StartContainer", cri.ContainerRequest(container_id=container))

    async def stop(self, container: str, *, grace: int = 0) -> None:
        """Stop a container: SIGTERM, then SIGKILL after `grace` seconds (at once when 0)."""
        request = cri.StopContainerRequest(container_id=container, timeout=grace)
        await self._call("StopContainer", request)

    async def remove(self, container: str) -> None:
        """Remove a container, killing it when it still runs."""
        await self._call("RemoveContainer", cri.ContainerRequest(container_id=container))

    async def sandboxes(self) -> dict[str, int]:
        """Return the state (0 is READY, 1 NOTREADY) of each listed sandbox."""
        response = await self._call("ListPodSandbox", cri.Empty(), cri.ListPodSandboxResponse)
        return {item.id: item.state for item in response.items}

    async def containers(self) -> dict[str, int]:
        """Return the state (CREATED, RUNNING, EXITED) of each listed container."""
        response = await self._call("ListContainers", cri.Empty(), cri.ListContainersResponse)
        return {item.id: item.state for item in response.containers}

    async def has_image(self) -> bool:
        """Tell whether the runtime's CRI side knows the grounds' image."""
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=IMAGE))
        answer, service = cri.ImageStatusResponse, "ImageService"
        response = await self._call("ImageStatus", request, answer, service)
        return bool(response.image.id)

    async def _call(
        self,
        method: str,
        request: Message,
        answer: Any = cri.Empty,  # noqa: ANN401 - any message
        service: str = "RuntimeService",
    ) -> Any:  # noqa: ANN401 - one of `answer`
        call = self._channel.unary_unary(
            f"/runtime.v1.{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return await call(request, timeout=self._timeout)


def _pod_labels(pod: cri.PodSandboxMetadata) -> dict[str, str]:
    return {
        "io.kubernetes.pod.name": pod.name,
        "io.kubernetes.pod.namespace": pod.namespace,
        "io.kubernetes.pod.uid": pod.uid,
    }
