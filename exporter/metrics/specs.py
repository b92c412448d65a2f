"""The kinds of metric: what is declared of one, and how its values become a family."""

import math
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Final, TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

Labels = TypeVar("Labels", bound=tuple[str, ...])
_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CounterSpec:
    """A counter; `name` without its `_total`."""

    name: str
    help: str
    labels: tuple[str, ...] = ()

    def family(
        self, values: Mapping[Labels, float], newest: Mapping[Labels, Exemplar] = _NONE
    ) -> CounterMetricFamily:
        """The family with these values and exemplars, by the values of their labels."""
        family = CounterMetricFamily(self.name, self.help, labels=self.labels)
        for labels, value in values.items():
            family.add_metric(labels, value, exemplar=newest.get(labels))
        return family


@dataclass(frozen=True, slots=True)
class GaugeSpec:
    """A gauge."""

    name: str
    help: str
    labels: tuple[str, ...] = ()

    def family(self, values: Mapping[Labels, float]) -> GaugeMetricFamily:
        """The family with these values; each has the values of its labels as its key."""
        family = GaugeMetricFamily(self.name, self.help, labels=self.labels)
        for labels, value in values.items():
            family.add_metric(labels, value)
        return family


@dataclass(frozen=True, slots=True)
class InfoSpec:
    """An info metric; `name` without its `_info`."""

    name: str
    help: str
    labels: tuple[str, ...]

    def family(self, *values: str) -> InfoMetricFamily:
        """The family with its one sample."""
        return InfoMetricFamily(self.name, self.help, dict(zip(self.labels, values, strict=True)))


class Histogram(Collector):
    """What was observed of one histogram.

    The library's own takes two locks for each value, and a loop: four times as long.
    """

    def __init__(self, name: str, text: str, buckets: tuple[float, ...]) -> None:
        self._about = name, text
        self._bounds = (*buckets, math.inf)
        self._counts = [0] * len(self._bounds)
        self._exemplars: dict[int, Exemplar] = {}
        self._sum = 0.0

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        """Observe the given amount; a bucket keeps its newest exemplar."""
        bucket = bisect_left(self._bounds, amount)
        self._counts[bucket] += 1
        self._sum += amount
        if exemplar:
            self._exemplars[bucket] = Exemplar(exemplar, amount, time.time())

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The one family."""
        family = HistogramMetricFamily(*self._about)
        buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
        for bucket, count in enumerate(accumulate(self._counts)):
            bound: str = floatToGoString(self._bounds[bucket])  # type: ignore[no-untyped-call] # the library's own gap
            exemplar = self._exemplars.get(bucket)
            buckets.append((bound, count, exemplar) if exemplar else (bound, count))
        family.add_metric((), buckets, self._sum)
        yield family


@dataclass(frozen=True, slots=True)
class HistogramSpec:
    """A histogram of seconds, without labels."""

    name: str
    help: str
    buckets: tuple[float, ...]

    def register(self, registry: CollectorRegistry) -> Histogram:
        """Register the histogram and return it."""
        histogram = Histogram(self.name, self.help, self.buckets)
        registry.register(histogram)
        return histogram
