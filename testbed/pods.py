"""Makes pods live and die on a real runtime over its CRI socket; errors are `AioRpcError`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final
from uuid import NAMESPACE_OID, uuid5

from conformance.cri_client import RUNS, Calls, Fields, Sandbox, decoded
from exporter.cri import runtime_v1_pb2 as pb
from testbed.waiting import until

# `.invalid` never resolves (RFC 2606): to pull this image fails, instead of asking the network.
IMAGE: Final = "grounds.invalid/busybox:1"
# StartContainer fails with this one: the image holds no such file.
CANNOT_START: Final = ("/no/such/command",)
_NOTHING: Final[Fields] = {}


class Pods(Calls):
    """CRI actions over `socket`; an async context manager. Pods live below `cgroup_parent`.

    Their cgroups are named as the kubelet's driver for `systemd` does, or the other one.
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
    ) -> None:
        super().__init__(socket, timeout)
        self._cgroup_parent = cgroup_parent
        self._systemd = systemd

    def uid(self, pod: str) -> str:
        """Of the pod of that name."""
        # No two runtimes of a machine have the same one: a stray is recognized by it.
        return str(uuid5(NAMESPACE_OID, f"{self._cgroup_parent}/{pod}"))

    def cgroup(self, pod: str) -> str:
        """The cgroup of a pod of that name, from the root on; "" where the runtime chooses."""
        uid = self.uid(pod)
        name = f"kubepods-pod{uid.replace('-', '_')}.slice" if self._systemd else f"pod{uid}"
        return self._cgroup_parent and f"{self._cgroup_parent}/{name}"

    async def run_pod(self, name: str, handler: str = "", more: Fields = _NOTHING) -> Sandbox:
        """Run a sandbox on the node's network; `more`: of its configuration."""
        place: Fields = {8: {1: self.cgroup(name)}}
        whose = (name, "default", self.uid(name))
        return await self.run_pod_of(*whose, place, more, handler=handler)

    async def stop_pod(self, sandbox: Sandbox) -> None:
        """Stop a sandbox and what runs in it; the runtime knows by then that it has ended."""
        await self.call("StopPodSandbox", {1: sandbox.id})
        # Containerd 2 announces no exit of one that is removed earlier; a kubelet's never is.
        await until(lambda: self._has_ended(sandbox), "the sandbox has ended")

    async def remove_pod(self, sandbox: Sandbox) -> None:
        """Remove a sandbox and its containers."""
        await self.call("RemovePodSandbox", {1: sandbox.id})

    async def create(
        self,
        sandbox: Sandbox,
        name: str | bytes,
        command: Sequence[str] = RUNS,
        attempt: int = 0,
        more: Fields = _NOTHING,
    ) -> str:
        """Create a container and return its id; it runs until stopped unless `command` ends.

        `more`: of its configuration.
        """
        ours: Fields = {1: {2: attempt}, 2: {1: IMAGE}}
        return await self.create_in(sandbox, name, command, ours, more)

    async def start(self, container: str) -> None:
        """Start a created container."""
        await self.call("StartContainer", {1: container})

    async def execute(self, container: str, *command: str) -> tuple[int, str]:
        """Run a command in a container; its exit code, and what it wrote to stdout."""
        answer = decoded(await self.call("ExecSync", {1: container, 2: command}))
        return answer.get(3, 0), answer.get(1, b"").decode()

    async def _has_ended(self, sandbox: Sandbox) -> bool:
        answer = decoded(await self.call("PodSandboxStatus", {1: sandbox.id}))
        return bool(decoded(answer[1]).get(3, 0))

    async def sandboxes(self) -> dict[str, int]:
        """Return the state (0 is READY, 1 NOTREADY) of each listed sandbox."""
        answer = await self.call("ListPodSandbox", {})
        return {item.id: item.state for item in pb.ListPodSandboxResponse.FromString(answer).items}

    async def has_image(self, image: str) -> bool:
        """Whether the runtime's CRI side knows that image."""
        # The answer has no field where it does not.
        return bool(await self.call("ImageStatus", {1: {1: image}}))
