"""A kubelet's page of metrics as real ones write it: the families that matter among all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STARTED: Final = 1_763_700_000.25
MIB: Final = 1 << 20
_BUCKETS: Final = ("0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10")
_HEAD: Final = """\
# HELP aggregator_discovery_aggregation_count_total [ALPHA] How often discovery was aggregated.
# TYPE aggregator_discovery_aggregation_count_total counter
aggregator_discovery_aggregation_count_total 0
# HELP go_goroutines Number of goroutines that currently exist.
# TYPE go_goroutines gauge
go_goroutines 412
"""
_GATES: Final = (("AllAlpha", "ALPHA"), ("CPUManagerPolicyOptions", ""), ("ImageVolume", "BETA"))
_OPERATIONS: Final = ("container_status", "list_containers", "list_podsandbox", "version")


@dataclass(frozen=True, slots=True)
class KubeletPage:
    """One page. `gate`: None where the kubelet does not list it. `bytes`: at least so large."""

    gate: bool | None = False
    started: float | None = STARTED
    bytes: int = 0
    version: str = "v1.33.4"
    stream_errors: int | None = None
    events: int | None = None

    def text(self) -> str:
        """The page, families in the order of their names."""
        parts = [_HEAD, self._evented(), _PLEG, _operations(self.bytes), self._features()]
        return "".join((*parts, self._process()))

    def _evented(self) -> str:
        if self.stream_errors is None and self.events is None:
            return ""
        count = self.events or 0
        name = "kubelet_evented_pleg_connection_latency_seconds"
        return (
            "# HELP kubelet_evented_pleg_connection_error_count [ALPHA] Errors of the connection.\n"
            "# TYPE kubelet_evented_pleg_connection_error_count counter\n"
            f"kubelet_evented_pleg_connection_error_count {self.stream_errors or 0}\n"
            f"# TYPE {name} histogram\n"
            f'{name}_bucket{{le="+Inf"}} {count}\n{name}_sum 0.5\n{name}_count {count}\n'
        )

    def _features(self) -> str:
        gates = [*_GATES]
        values = {name: 1 for name, _ in gates}
        if self.gate is not None:
            gates.append(("EventedPLEG", "ALPHA"))
            values["EventedPLEG"] = int(self.gate)
        lines = [
            f'kubernetes_feature_enabled{{name="{name}",stage="{stage}"}} {values[name]}\n'
            for name, stage in sorted(gates)
        ]
        build = (
            'kubernetes_build_info{build_date="2026-08-12T08:21:42Z",compiler="gc",'
            f'git_version="{self.version}",major="1",minor="33"}} 1\n'
        )
        head = "# TYPE kubernetes_feature_enabled gauge\n"
        return f"# TYPE kubernetes_build_info gauge\n{build}{head}{''.join(lines)}"

    def _process(self) -> str:
        if self.started is None:
            return ""
        return (
            "# TYPE process_start_time_seconds gauge\n"
            f"process_start_time_seconds {self.started:.11e}\n"
        )


def _histogram(name: str, labels: str = "") -> str:
    inner = f"{labels}," if labels else ""
    buckets = "".join(f'{name}_bucket{{{inner}le="{le}"}} 90210\n' for le in (*_BUCKETS, "+Inf"))
    outer = f"{{{labels}}}" if labels else ""
    return f"{buckets}{name}_sum{outer} 123.4\n{name}_count{outer} 90210\n"


_PLEG: Final = (
    '# TYPE kubelet_node_name gauge\nkubelet_node_name{node="node-7"} 1\n'
    "# TYPE kubelet_pleg_discard_events counter\nkubelet_pleg_discard_events 3\n"
    "# TYPE kubelet_pleg_last_seen_seconds gauge\nkubelet_pleg_last_seen_seconds 1.7637001e+09\n"
    "# TYPE kubelet_pleg_relist_duration_seconds histogram\n"
    + _histogram("kubelet_pleg_relist_duration_seconds")
)


def _operations(size: int) -> str:
    """What fills a real page: histograms by operation, and by volume on a full node."""
    name = "kubelet_runtime_operations_duration_seconds"
    text = f"# TYPE {name} histogram\n"
    text += "".join(_histogram(name, f'operation_type="{each}"') for each in _OPERATIONS)
    one = _histogram("storage_operation_duration_seconds", f'volume_plugin="csi-{0:036d}"')
    if size:
        text += "# TYPE storage_operation_duration_seconds histogram\n" + one * (
            size // len(one) + 1
        )
    return text
