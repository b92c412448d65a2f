"""What the kubelet believes: one WatchPods call, reduced to changes of containers.

Kept of a pod are only its names, its containers' statuses and how long they may take to end; specs,
environments and annotations are skipped undecoded. Invariant: bounded. A message that exceeds a
limit or cannot be read ends the watch with a `KubeletError`: a lost update would leave the pod
wrong, while the next watch begins with all pods. The kubelet itself may drop updates without ending
the watch, may send older ones after the first pods, and sends only the names of a removed pod. So
`ask` before accusing it. Source: `proto/kubelet_pods.proto`, and `pkg/kubelet/apis/pods` of k/k.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from exporter.cri import limits
from exporter.cri.client import OVERFLOW_STATUS, channel_to
from exporter.cri.endpoint import refusal
from exporter.cri.entries import is_crowded
from exporter.errors import KubeletError
from exporter.kubelet import kubelet_pods_pb2 as pb
from exporter.model.events import ListedState, Pod, Status
from exporter.model.facts import BeliefsShown, Believed
from exporter.model.labels import PodsEnd
from exporter.timing import Bucket

_SERVICE: Final = "/v1alpha1.Pods/"
WATCH: Final = f"{_SERVICE}WatchPods"
GET: Final = f"{_SERVICE}GetPod"
_GET_SECONDS: Final = 5.0
_RUNNING: Final = ListedState.RUNNING
_EXITED: Final = ListedState.EXITED
# A pod has 1.5 MiB at most in etcd, and its status comes on top.
_LARGEST_POD: Final = 4 * 1024 * 1024
_MOST_PODS: Final = 4096
_MOST_CONTAINERS: Final = 65536
# Bytes per second, and in a burst: 3,000 pods of 20 KB, or 60 of 1 MiB. Each message counts as
# `_MESSAGE` more bytes.
_RATE: Final = 4 * 1024 * 1024
_BURST: Final = 64 * 1024 * 1024
_MESSAGE: Final = 4096
_ENDS: Final = {
    grpc.StatusCode.UNAVAILABLE: PodsEnd.UNAVAILABLE,
    grpc.StatusCode.FAILED_PRECONDITION: PodsEnd.NOT_SYNCHRONIZED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: PodsEnd.LAGGED,
    # Sent by a filter in between.
    OVERFLOW_STATUS: PodsEnd.LAGGED,
    grpc.StatusCode.UNIMPLEMENTED: PodsEnd.UNSUPPORTED,
    grpc.StatusCode.PERMISSION_DENIED: PodsEnd.DENIED,
    grpc.StatusCode.UNAUTHENTICATED: PodsEnd.DENIED,
}
# Said by gRPC itself, on this side, when it refuses a message with RESOURCE_EXHAUSTED.
_TOO_LARGE: Final = "larger than max"
# A 64-bit number has at most so many.
_DIGITS: Final = 20
_KINDS: Final = (pb.ADDED, pb.MODIFIED, pb.DELETED)


def reach(path: Path) -> None:
    """Raise KubeletError if no server listens at that socket, or this process may not connect."""
    error = refusal(path)
    if isinstance(error, PermissionError):
        said = "permission denied: only uid 0 may connect"
        raise _error(PodsEnd.DENIED, f"unix://{path}: {said}")
    if error:
        raise _error(PodsEnd.UNAVAILABLE, f"unix://{path}: {error.strerror}")


class PodsClient:
    """One connection to the kubelet at `path`: one watch, and questions beside it."""

    def __init__(self, path: Path) -> None:
        self._channel = channel_to(path, patient=False, largest=2 * _LARGEST_POD)
        self._pods = Pods()

    async def watch(self, take: Callable[[Believed | BeliefsShown], object]) -> None:
        """Pass on what the kubelet shows until it ends the watch; KubeletError unless cleanly.

        The first facts are all pods, then `BeliefsShown`.
        """
        allowance = Bucket(_RATE, _BURST)
        with _translated("WatchPods"):
            call = self._channel.unary_stream(WATCH)(pb.WatchPodsRequest().SerializeToString())
            while (raw := await call.read()) is not grpc.aio.EOF:  # type: ignore[attr-defined] # not in the stubs
                at = time.monotonic()
                if not allowance.spend(at, _MESSAGE + len(raw)):
                    raise _error(PodsEnd.OVERFLOW, "the kubelet shows more than can be taken")
                fact = self._pods.apply(raw, at)
                if fact is not None:
                    take(fact)

    async def ask(self, pod: Pod) -> Believed | None:
        """What the kubelet says about that pod now; None if it has shown something newer."""
        request = pb.GetPodRequest(pod_uid=pod.uid).SerializeToString()
        with _translated("GetPod"):
            try:
                raw = await self._channel.unary_unary(GET)(request, timeout=_GET_SECONDS)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.NOT_FOUND:
                    raise
                raw = None
        return self._pods.answered(pod, raw, time.monotonic())

    async def close(self) -> None:
        """End the watch and the questions."""
        await self._channel.close()


@contextmanager
def _translated(call: str) -> Iterator[None]:
    try:
        yield
    except grpc.aio.AioRpcError as error:
        end, details = _ENDS.get(error.code(), PodsEnd.OTHER), error.details() or "no details"
        if _TOO_LARGE in details:
            end = PodsEnd.OVERFLOW
        said = f"{error.code().name.lower()}: {details[: limits.DETAILS]}"
        raise _error(end, f"{call}: {said}") from None


@dataclass(frozen=True, slots=True)
class _Shown:
    """A pod as it was shown last. `version`: of the API server's object, 0 for a static pod.

    `grace`: seconds that its containers may take to end. `due`: when they must have ended, if the
    pod is terminating and has no finalizer.
    """

    pod: Pod
    version: int
    grace: float
    due: float | None
    containers: dict[str, Status]


class Pods:
    """The pods that one watch has shown."""

    def __init__(self) -> None:
        self._pods: dict[str, _Shown] = {}
        self._containers = 0

    def apply(self, raw: bytes, at: float) -> Believed | BeliefsShown | None:
        """What that message changes; None if nothing. KubeletError if it cannot be read."""
        with _checking():
            message = pb.WatchPodsEvent.FromString(raw)
            if message.type == pb.INITIAL_SYNC_COMPLETE:
                return BeliefsShown(at)
            if message.type not in _KINDS:
                return None
            uid = _checked(pb.Pod.FromString(_bounded(message.pod)).metadata.uid)
            if message.type == pb.DELETED:
                return self._removed(uid, at)
            known, fact = self._pods.get(uid), self._shown(message.pod, at)
        due = known.due if known else None
        return fact if fact and (fact.changed or fact.gone or fact.due != due) else None

    def answered(self, pod: Pod, raw: bytes | None, at: float) -> Believed | None:
        """What the answer about that pod changes. `raw`: None if the kubelet has no such pod."""
        if raw is None:
            known = self._removed(pod.uid, at)
            return replace(known or Believed(at, pod, (), (), removed=True), asked=True)
        with _checking():
            fact = self._shown(pb.GetPodResponse.FromString(raw).pod, at)
        return None if fact is None else replace(fact, asked=True)

    def _removed(self, uid: str, at: float) -> Believed | None:
        """Forget that pod; None if it is not known. The grace is that of its last update."""
        known = self._pods.pop(uid, None)
        if known is None:
            return None
        self._containers -= len(known.containers)
        gone = tuple(known.containers)
        return Believed(at, known.pod, (), gone, removed=True, patience=known.grace)

    def _shown(self, raw: bytes, at: float) -> Believed | None:
        """How that pod differs from what was shown before; None if this message is older."""
        message = pb.Pod.FromString(_bounded(raw))
        metadata, shown = message.metadata, _statuses(message.status)
        uid, version = _checked(metadata.uid), _version(metadata.resource_version)
        known = self._pods.get(uid)
        if known is not None and version < known.version:
            return None
        pod = (
            known.pod if known else Pod(_checked(metadata.namespace), _checked(metadata.name), uid)
        )
        before = known.containers if known else {}
        grace = max(
            0.0,
            metadata.deletion_grace_period_seconds or message.spec.termination_grace_period_seconds,
        )
        due = None
        # By our own clock, from when this was first seen: the timestamp is the API server's.
        if metadata.HasField("deletion_timestamp") and not metadata.finalizers:
            same = known is not None and known.due is not None and known.grace == grace
            due = known.due if known and same else at + grace
        self._pods[uid] = _Shown(pod, version, grace, due, shown)
        self._containers += len(shown) - len(before)
        if len(self._pods) > _MOST_PODS or self._containers > _MOST_CONTAINERS:
            raise _error(PodsEnd.OVERFLOW, "the kubelet shows more pods than a node can have")
        changed = tuple(each for each in shown.values() if before.get(each.id) != each)
        gone = tuple(each for each in before if each not in shown)
        return Believed(at, pod, changed, gone, due=due)


@contextmanager
def _checking() -> Iterator[None]:
    try:
        yield
    except DecodeError:
        raise _error(PodsEnd.MALFORMED, "the kubelet sent a message that is not a pod") from None


def _bounded(raw: bytes) -> bytes:
    if len(raw) > _LARGEST_POD:
        raise _error(PodsEnd.OVERFLOW, f"a pod larger than {_LARGEST_POD >> 20} MiB")
    return raw


def _version(text: str) -> int:
    """The resource version, a decimal number that grows; 0 if the text is none."""
    return int(text) if len(text) <= _DIGITS and text.isdecimal() and text.isascii() else 0


def _statuses(raw: bytes) -> dict[str, Status]:
    """The containers of a status, by id."""
    if len(raw) > limits.UNCOUNTED_BYTES and is_crowded(raw):
        raise _error(PodsEnd.OVERFLOW, "a pod with more containers than a pod can have")
    status = pb.PodStatus.FromString(raw)
    shown: dict[str, Status] = {}
    for group in (
        status.init_container_statuses,
        status.container_statuses,
        status.ephemeral_container_statuses,
    ):
        _add(group, shown)
    return shown


def _add(group: Iterable[pb.ContainerStatus], shown: dict[str, Status]) -> None:
    for each in group:
        name, own, last = _checked(each.name), _id(each.container_id), each.last_state
        # If the kubelet does not know how the last container ended, it does not name that either.
        if last.HasField("terminated") and (ended := _id(last.terminated.container_id)):
            shown[ended] = _ended(ended, name, last.terminated)
        state = each.state
        if state.HasField("terminated"):
            ended = _id(state.terminated.container_id) or own
            shown[ended] = _ended(ended, name, state.terminated)
        elif state.HasField("running"):
            shown[own] = Status(own, _RUNNING, name)
    shown.pop("", None)


def _ended(container_id: str, name: str, end: pb.ContainerStateTerminated) -> Status:
    return Status(container_id, _EXITED, name, end.exit_code, _checked(end.reason))


def _id(text: str) -> str:
    """The id without its scheme; "" if there is none."""
    return _checked(text.rpartition("://")[2])


def _checked(text: str) -> str:
    if len(text) > limits.TEXT or not text.isascii():
        raise _error(PodsEnd.MALFORMED, "the kubelet sent a name that no pod can have")
    return text


def _error(end: PodsEnd, said: str) -> KubeletError:
    return KubeletError(end.value, said)
