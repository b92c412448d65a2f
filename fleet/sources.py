"""The series that a report reads: as they are scraped, or as the recording rules keep them.

The only list of them. The rules (group `shadow_pleg.recording.report` in `alerts/`) keep one sample
in five minutes of what a report needs.
Both kinds count per process, so the same PromQL reads either.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from exporter import metrics
from exporter.node.state import KernelWitness, StreamState
from exporter.pleg.profiles import StreamKind

# Of a scraped kubelet, whatever its version.
_KUBELET: Final = "kubelet_pleg_relist_interval_seconds_count"
# A stream that is refused, disabled or unsupported owes no announcements.
_OWES_NOTHING: Final = (StreamState.DISABLED, StreamState.REFUSED, StreamState.UNSUPPORTED)
# A subscription that the exporter ended itself; a kubelet's would have gone on.
_OUR_END: Final = "overflow"
# What is lost there cannot be measured: a subscriber takes events from another, or may not stay.
UNMEASURED: Final = (StreamKind.EXCLUSIVE.value, StreamKind.FRAGILE.value)
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!=|!~|=)\s*"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True, slots=True)
class Metric:
    """Series by name and matchers."""

    name: str
    matchers: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """What is read for each purpose; `present` has a series wherever a process was scraped.

    `streaming` and `not_subscribed` are shares of time from 0 to 1. `kernel` is 1 while the kernel
    is a witness. `gaps` have those of outages in them unless `outage_gaps` is None. None is what
    recordings do not keep.
    """

    present: Metric
    runtime: Metric
    streaming: Metric
    not_subscribed: Metric
    lifecycle: Metric
    received: Metric
    missed: Metric
    late: Metric
    undecided: Metric
    gaps: Metric
    outage_gaps: Metric | None
    disconnects: Metric
    stalls: Metric
    ghosts: Metric
    strays: Metric
    kernel: Metric
    exit_to_event: Metric
    exit_to_list: Metric
    kubelet: Metric
    kubelet_build: Metric
    configuration: Metric
    kubelet_missed: Metric | None
    unusable: Metric | None


SCRAPED: Final = Source(
    present=Metric(f"{metrics.BUILD.name}_info"),
    # The name is empty until the runtime answers for the first time.
    runtime=Metric(f"{metrics.RUNTIME.name}_info", 'name!=""'),
    streaming=Metric(metrics.STREAM_STATE.name, f'state="{StreamState.STREAMING.value}"'),
    not_subscribed=Metric(
        metrics.STREAM_STATE.name,
        'state=~"{}"'.format("|".join(state.value for state in _OWES_NOTHING)),
    ),
    lifecycle=Metric(f"{metrics.LIFECYCLE.name}_total"),
    received=Metric(f"{metrics.EVENTS_RECEIVED.name}_total"),
    missed=Metric(f"{metrics.MISSED.name}_total"),
    late=Metric(f"{metrics.LATE.name}_total"),
    undecided=Metric(f"{metrics.UNDECIDED.name}_total"),
    gaps=Metric(f"{metrics.GAPS.name}_total"),
    outage_gaps=Metric(f"{metrics.OUTAGE_GAPS.name}_total"),
    disconnects=Metric(f"{metrics.STREAM_DISCONNECTS.name}_total", f'reason!="{_OUR_END}"'),
    stalls=Metric(f"{metrics.STREAM_STALLS.name}_total"),
    ghosts=Metric(f"{metrics.GHOSTS.name}_total"),
    strays=Metric(f"{metrics.STRAYS.name}_total"),
    kernel=Metric(metrics.KERNEL_WITNESS.name, f'state="{KernelWitness.WATCHING.value}"'),
    exit_to_event=Metric(f"{metrics.EXIT_TO_EVENT.name}_bucket"),
    exit_to_list=Metric(f"{metrics.EXIT_TO_LIST.name}_bucket"),
    kubelet=Metric(_KUBELET),
    kubelet_build=Metric("kubernetes_build_info"),
    configuration=Metric(metrics.CONFIGURATION.name),
    kubelet_missed=Metric(f"{metrics.KUBELET_MISSED.name}_total"),
    unusable=Metric(f"{metrics.UNUSABLE.name}_total"),
)

RECORDED: Final = Source(
    # One series a process, unlike the counters by event.
    present=Metric("shadow_pleg:process:undecided_events:sum"),
    runtime=Metric("shadow_pleg:process:runtime:last5m"),
    streaming=Metric("shadow_pleg:process:streaming:avg5m"),
    not_subscribed=Metric("shadow_pleg:process:not_subscribed:avg5m"),
    lifecycle=Metric("shadow_pleg:process:lifecycle_events:sum"),
    received=Metric("shadow_pleg:process:events_received:sum"),
    missed=Metric("shadow_pleg:process:missed_events:sum"),
    late=Metric("shadow_pleg:process:late_events:sum"),
    undecided=Metric("shadow_pleg:process:undecided_events:sum"),
    gaps=Metric("shadow_pleg:process:steady_event_gaps:sum"),
    outage_gaps=None,
    disconnects=Metric("shadow_pleg:process:stream_disconnects:sum"),
    stalls=Metric("shadow_pleg:process:stream_stalls:sum"),
    ghosts=Metric("shadow_pleg:process:ghosts:sum"),
    strays=Metric("shadow_pleg:process:strays:sum"),
    kernel=Metric("shadow_pleg:process:kernel_witness:last5m"),
    exit_to_event=Metric("shadow_pleg:process:exit_to_event_bucket:sum"),
    exit_to_list=Metric("shadow_pleg:process:exit_to_list_bucket:sum"),
    kubelet=Metric("shadow_pleg:node:kubelet:last5m"),
    kubelet_build=SCRAPED.kubelet_build,
    configuration=SCRAPED.configuration,
    kubelet_missed=None,
    unusable=None,
)


def recorded_have(labels: Iterable[str], *selectors: str) -> bool:
    """Whether these selectors can choose recorded series, which have a process' labels only."""
    named = {name for selector in selectors for name in _MATCHER.findall(selector)}
    return named <= {*labels, "job", "instance"}
