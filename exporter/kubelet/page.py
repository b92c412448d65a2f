"""Parses a kubelet's metrics page incrementally and keeps only a few of its lines.

A full node's page is 3 MB, and the peer may not be a kubelet at all: unwanted lines are dropped as
they arrive, and the library's parser sees only about ten.
"""

import math
from collections.abc import Iterable
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from exporter.errors import KubeletError
from exporter.kubelet.state import KubeletReading
from exporter.model.labels import Gate, Problem

_LINE_BYTES: Final = 1 << 16
_MOST_LINES: Final = 64
_VERSION_CHARACTERS: Final = 64
_GATE: Final = b'"EventedPLEG"'
_FEATURES: Final = b"kubernetes_feature_enabled{"
_KUBELET: Final = b"kubelet_"
_BUILD: Final = "kubernetes_build_info"
# What is read of each counter; it is under its first name, or as k/k#138375 renames it.
_COUNTERS: Final = {
    "kubelet_pleg_discard_events": "discards",
    "kubelet_pleg_discard_events_total": "discards",
    "kubelet_evented_pleg_connection_error_count": "stream_errors",
    "kubelet_evented_pleg_connection_error_total": "stream_errors",
    "kubelet_evented_pleg_connection_success_count": "connections",
    "kubelet_evented_pleg_connection_success_total": "connections",
    "kubelet_evented_pleg_connection_latency_seconds_count": "events",
}
_WANTED: Final = tuple(
    f"{name}{end}".encode() for name in (_BUILD, *_COUNTERS) for end in ("{", " ")
)
_KEPT: Final = (_FEATURES, *_WANTED)


class Page:
    """`feed` it every chunk, then call `reading`. KubeletError once the page cannot be valid."""

    def __init__(self) -> None:
        self._unfinished = b""
        self._kept: list[bytes] = []
        self._is_kubelet = False

    def feed(self, piece: bytes) -> None:
        """Take the next chunk, split at any position."""
        *lines, self._unfinished = (self._unfinished + piece).split(b"\n")
        if len(self._unfinished) > _LINE_BYTES:
            raise _malformed(f"has a line longer than {_LINE_BYTES >> 10} KiB")
        self._take(lines)

    def reading(self, requested: float) -> KubeletReading:
        """The reading from the whole page, which was requested at that monotonic time."""
        self._take([self._unfinished])
        if not self._is_kubelet:
            raise _malformed("has no metric of a kubelet: does the URL name one?")
        samples = self._samples()
        builds = [each.labels.get("git_version", "") for each in samples if each.name == _BUILD]
        counters = {
            _COUNTERS[each.name]: each.value
            for each in reversed(samples)
            if each.name in _COUNTERS and math.isfinite(each.value)
        }
        version = "".join(builds[:1])[:_VERSION_CHARACTERS]
        return KubeletReading(requested, _gate(samples), version, **counters)

    def _take(self, lines: list[bytes]) -> None:
        self._is_kubelet = self._is_kubelet or any(line.startswith(_KUBELET) for line in lines)
        for line in lines:
            if line.startswith(_KEPT) and (_GATE in line or not line.startswith(_FEATURES)):
                self._kept.append(line)
        if len(self._kept) > _MOST_LINES:
            raise _malformed("repeats itself")

    def _samples(self) -> list[Sample]:
        try:
            text = b"".join(line + b"\n" for line in self._kept).decode()
            return [s for family in text_string_to_metric_families(text) for s in family.samples]
        except (ValueError, LookupError, TypeError, AttributeError):
            raise _malformed("is not in Prometheus' text format") from None


def _gate(samples: Iterable[Sample]) -> Gate:
    values = {s.value for s in samples if s.labels.get("name") == "EventedPLEG"}
    if not values:
        return Gate.UNLISTED
    if values in ({0.0}, {1.0}):
        return Gate.ON if values == {1.0} else Gate.OFF
    raise _malformed("contradicts itself about the gate EventedPLEG")


def _malformed(what: str) -> KubeletError:
    return KubeletError(Problem.MALFORMED.value, f"the page {what}")
