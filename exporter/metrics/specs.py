"""The kinds of metrics: what each declares, and how its values become a family."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar

from prometheus_client.core import Metric
from prometheus_client.metrics import Histogram
from prometheus_client.registry import CollectorRegistry
from prometheus_client.samples import Exemplar

Labels = TypeVar("Labels", bound=tuple[str, ...])
_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


@dataclass(frozen=True)
class Spec:
    """A metric; a sample's name is `name` plus `suffix`."""

    kind: ClassVar[str]
    suffix: ClassVar[str] = ""
    name: str
    help: str
    labels: tuple[str, ...] = ()

    def family(
        self, values: Mapping[Labels, float], newest: Mapping[Labels, Exemplar] = _NONE
    ) -> Metric:
        """The family with these values and exemplars, keyed by label values."""
        family = Metric(self.name, self.help, self.kind)
        for labels, value in values.items():
            named = dict(zip(self.labels, labels, strict=True))
            family.add_sample(self.name + self.suffix, named, value, exemplar=newest.get(labels))
        return family


class CounterSpec(Spec):
    """A counter."""

    kind = "counter"
    suffix = "_total"


class GaugeSpec(Spec):
    """A gauge."""

    kind = "gauge"


class InfoSpec(Spec):
    """A metric with the value 1, whose labels are the information."""

    kind = "info"
    suffix = "_info"


@dataclass(frozen=True)
class HistogramSpec(Spec):
    """A histogram of seconds, without labels."""

    kind = "histogram"
    buckets: tuple[float, ...] = ()

    def register(self, registry: CollectorRegistry) -> Histogram:
        """Register the histogram and return it."""
        return Histogram(self.name, self.help, buckets=self.buckets, registry=registry)
