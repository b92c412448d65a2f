"""The kubelet's calls that `filter` passes on, and what it keeps of a pod: no environment.

Blind spot: a pod is decoded whole before anything is left out of it.
"""

from collections.abc import Mapping
from typing import Final

from google.protobuf.message import DecodeError

from crifilter.calls import UNDECODABLE, AllowedCall, trimmed
from exporter.cri import limits
from exporter.cri.entries import is_crowded
from exporter.kubelet import kubelet_pods_pb2 as pb
from exporter.kubelet.pods import WATCH

GET: Final = "/v1alpha1.Pods/GetPod"


def _shown(raw: bytes) -> bytes:
    """An update of the watch. If it cannot be read, the exporter cannot read the result either."""
    try:
        event = pb.WatchPodsEvent.FromString(raw)
        return pb.WatchPodsEvent(type=event.type, pod=_pod(event.pod)).SerializeToString()
    except DecodeError:
        return UNDECODABLE


def _got(raw: bytes) -> bytes:
    answer = pb.GetPodResponse.FromString(raw)
    return pb.GetPodResponse(pod=_pod(answer.pod)).SerializeToString()


def _pod(raw: bytes) -> bytes:
    pod = pb.Pod.FromString(raw)
    pod.DiscardUnknownFields()
    if len(pod.status) > limits.UNCOUNTED_BYTES and is_crowded(pod.status):
        raise DecodeError("more containers than a pod can have")
    pod.status = trimmed(pb.PodStatus, pod.status)
    return pod.SerializeToString()


PODS_ALLOWED: Final[Mapping[str, AllowedCall]] = {
    WATCH: AllowedCall(pb.WatchPodsRequest, _shown, is_endless=True),
    GET: AllowedCall(pb.GetPodRequest, _got),
}
