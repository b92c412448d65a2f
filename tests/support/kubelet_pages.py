"""A kubelet's page of metrics as real ones write it: the families that matter among all others."""

from dataclasses import dataclass
from typing import Final

MIB: Final = 1 << 20
_BUCKETS: Final = ("0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10")
_GATES: Final = {"AllAlpha": "ALPHA", "CPUManagerPolicyOptions": "", "ImageVolume": "BETA"}
_OPERATIONS: Final = ("container_status", "list_containers", "list_podsandbox", "version")


def _family(kind: str, name: str, *samples: str) -> str:
    """A family; each sample is what follows its name."""
    head = f"# HELP {name} [ALPHA] What a kubelet says.\n# TYPE {name} {kind}\n"
    return head + "".join(f"{name}{sample}\n" for sample in samples)


def _histogram(labels: str = "") -> tuple[str, ...]:
    inner, outer = (f"{labels},", f"{{{labels}}}") if labels else ("", "")
    buckets = (f'_bucket{{{inner}le="{le}"}} 90210' for le in (*_BUCKETS, "+Inf"))
    return (*buckets, f"_sum{outer} 123.4", f"_count{outer} 90210")


def _operations(size: int) -> str:
    """What fills a real page: histograms by operation, and by volume on a full node."""
    samples = [s for each in _OPERATIONS for s in _histogram(f'operation_type="{each}"')]
    text = _family("histogram", "kubelet_runtime_operations_duration_seconds", *samples)
    one = _histogram(f'volume_plugin="csi-{0:036d}"')
    name = "storage_operation_duration_seconds"
    times = size // sum(len(name) + len(sample) for sample in one) + 1
    return text + (_family("histogram", name, *one * times) if size else "")


@dataclass(frozen=True, slots=True)
class KubeletPage:
    """One page. `gate`: None where the kubelet does not list it. `bytes`: at least so large."""

    gate: bool | None = False
    bytes: int = 0
    version: str = "v1.33.4"
    stream_errors: int | None = None
    events: int | None = None
    connections: int = 1

    def text(self) -> str:
        """The page, families in the order of their names."""
        return "".join(
            (
                _family("counter", "aggregator_discovery_aggregation_count_total", " 0"),
                _family("gauge", "go_goroutines", " 412"),
                self._evented(),
                _family("gauge", "kubelet_node_name", '{node="node-7"} 1'),
                _family("counter", "kubelet_pleg_discard_events", " 3"),
                _family("gauge", "kubelet_pleg_last_seen_seconds", " 1.7637001e+09"),
                _family("histogram", "kubelet_pleg_relist_duration_seconds", *_histogram()),
                _operations(self.bytes),
                self._features(),
                _family("gauge", "process_start_time_seconds", " 1.76370000025e+09"),
            )
        )

    def _evented(self) -> str:
        if self.stream_errors is None and self.events is None:
            return ""
        name, count = "kubelet_evented_pleg_connection", self.events or 0
        buckets = (f'_bucket{{le="{le}"}} {count}' for le in (*_BUCKETS, "+Inf"))
        return (
            _family("counter", f"{name}_error_count", f" {self.stream_errors or 0}")
            + _family(
                "histogram", f"{name}_latency_seconds", *buckets, "_sum 0.5", f"_count {count}"
            )
            + _family("counter", f"{name}_success_count", f" {self.connections}")
        )

    def _features(self) -> str:
        gates = _GATES if self.gate is None else _GATES | {"EventedPLEG": "ALPHA"}
        samples = (
            f'{{name="{name}",stage="{stage}"}} {self.gate if name == "EventedPLEG" else 1:d}'
            for name, stage in sorted(gates.items())
        )
        build = f'{{build_date="2026-08-12T08:21:42Z",git_version="{self.version}",major="1"}} 1'
        features = _family("gauge", "kubernetes_feature_enabled", *samples)
        return _family("gauge", "kubernetes_build_info", build) + features
