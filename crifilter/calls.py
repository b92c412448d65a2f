"""The calls that `filter` passes on, and the fields that it keeps in their messages.

It parses requests and answers, and serialises them without the fields that `proto/` does not
describe: annotations, labels, images, a pod's environment, and `info`, in which a runtime shows a
container's. Blind spot: a pod is decoded whole before anything is left out of it.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from google.protobuf.message import DecodeError, Message

from exporter.cri import limits
from exporter.cri import runtime_v1_pb2 as cri
from exporter.cri.client import SERVICE
from exporter.cri.decode import whose
from exporter.cri.entries import chunks, is_crowded
from exporter.kubelet import kubelet_pods_pb2 as pods
from exporter.kubelet.pods import WATCH
from exporter.process.event_loop import in_slices


@dataclass(frozen=True, slots=True)
class AllowedCall:
    """A call. `trim` removes fields from an answer, or from a piece of a list.

    `is_endless`: answers come until one side ends the call, and are read as fast as they come.
    `ordered`: the call uses the connection of the events. An answer to Version shows that the
    runtime has received earlier subscriptions, so Version must not overtake them on another one.
    """

    request: type[Message]
    trim: Callable[[bytes], bytes]
    is_list: bool = False
    ordered: bool = False
    is_endless: bool = False


EVENTS: Final = SERVICE + "GetContainerEvents"
GET: Final = "/v1alpha1.Pods/GetPod"
# No message can continue with this byte.
UNDECODABLE: Final = b"\xff"


async def trimmed_answer(call: AllowedCall, raw: bytes) -> bytes:
    """An answer without undescribed fields. DecodeError if it is none; TooLargeError.

    A list is parsed in chunks: as a whole, a hostile one of 32 MiB takes gigabytes, and seconds.
    """
    parts = chunks(raw) if call.is_list else (raw,)
    return b"".join(await in_slices(call.trim(part) for part in parts))


def trimmed(kind: type[Message], raw: bytes) -> bytes:
    """The message without undescribed fields. DecodeError if it is none of this kind."""
    message = kind.FromString(raw)
    message.DiscardUnknownFields()
    return message.SerializeToString()


def trimmed_event(raw: bytes) -> bytes:
    """The event without undescribed fields.

    If the event cannot be read, its container's id and a byte that the exporter cannot read either.
    """
    with suppress(DecodeError):
        if len(raw) <= limits.UNCOUNTED_BYTES or not is_crowded(raw):
            return trimmed(cri.ContainerEventResponse, raw)
    return cri.ContainerEventResponse(container_id=whose(raw)).SerializeToString() + UNDECODABLE


# On the wire, a streamed list is the unary one in several messages.
_SANDBOXES: Final = AllowedCall(
    cri.ListPodSandboxRequest, partial(trimmed, cri.ListPodSandboxResponse), is_list=True
)
_CONTAINERS: Final = AllowedCall(
    cri.ListContainersRequest, partial(trimmed, cri.ListContainersResponse), is_list=True
)
# Of the runtime, by the exact path of the request.
ALLOWED: Final[Mapping[str, AllowedCall]] = {
    SERVICE + "Version": AllowedCall(
        cri.VersionRequest, partial(trimmed, cri.VersionResponse), ordered=True
    ),
    SERVICE + "ListPodSandbox": _SANDBOXES,
    SERVICE + "StreamPodSandboxes": _SANDBOXES,
    SERVICE + "ListContainers": _CONTAINERS,
    SERVICE + "StreamContainers": _CONTAINERS,
    SERVICE + "ContainerStatus": AllowedCall(
        cri.ContainerStatusRequest, partial(trimmed, cri.ContainerStatusResponse)
    ),
    EVENTS: AllowedCall(cri.GetEventsRequest, trimmed_event, ordered=True, is_endless=True),
}


def _shown(raw: bytes) -> bytes:
    """An update of the watch. If it cannot be read, the exporter cannot read the result either."""
    try:
        event = pods.WatchPodsEvent.FromString(raw)
        return pods.WatchPodsEvent(type=event.type, pod=_pod(event.pod)).SerializeToString()
    except DecodeError:
        return UNDECODABLE


def _got(raw: bytes) -> bytes:
    answer = pods.GetPodResponse.FromString(raw)
    return pods.GetPodResponse(pod=_pod(answer.pod)).SerializeToString()


def _pod(raw: bytes) -> bytes:
    pod = pods.Pod.FromString(raw)
    pod.DiscardUnknownFields()
    if len(pod.status) > limits.UNCOUNTED_BYTES and is_crowded(pod.status):
        raise DecodeError("more containers than a pod can have")
    pod.status = trimmed(pods.PodStatus, pod.status)
    return pod.SerializeToString()


# Of the kubelet.
PODS_ALLOWED: Final[Mapping[str, AllowedCall]] = {
    WATCH: AllowedCall(pods.WatchPodsRequest, _shown, is_endless=True),
    GET: AllowedCall(pods.GetPodRequest, _got),
}
