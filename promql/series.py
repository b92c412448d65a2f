"""What a fleet is judged by: the series as they are scraped, and as recording rules keep them.

The rules (group `shadow_pleg.recording.report` in `alerts/`) are made of `KEPT`: of each process
one sample in five minutes. Both kinds count per process, so the same PromQL reads either.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from exporter.conditions.account import LOST
from exporter.conditions.catalogue import CONDITIONS
from exporter.conditions.condition import Weighs
from exporter.metrics import families
from exporter.metrics.families import HistogramSpec, Spec
from exporter.model.events import Lifecycle
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import BY_CHOICE, Flaw, KernelWitness, OomKill, StreamKind, StreamState
from exporter.runtimes.kubelets import MOST_ERRORS
from promql.text import select

# What every kubelet acts on, and all else.
EXIT: Final = Lifecycle.DIED.label
EXITS, OTHERS = f'event="{EXIT}"', f'event!="{EXIT}"'
# All else has an excuse.
_LOST: Final = "|".join(cause.value for cause in LOST)
IN_OPEN_STREAM, EXCUSED = f'cause=~"{_LOST}"', f'cause!~"{_LOST}"'
BY_DESIGN, OWED = (f'cause{how}"{Cause.BY_DESIGN.value}"' for how in ("=", "!="))
# What is lost there cannot be measured: a subscriber takes events from another, or may not stay.
UNMEASURED: Final = (StreamKind.EXCLUSIVE.value, StreamKind.FRAGILE.value)
STREAMING: Final = f'state="{StreamState.STREAMING.value}"'
NOT_WANTED: Final = 'state=~"{}"'.format("|".join(state.value for state in BY_CHOICE))
# A subscription that the exporter ended itself; a kubelet's would have gone on.
NOT_OURS: Final = 'reason!="overflow"'
# Stream errors after which a kubelet never subscribes again.
FLAPS: Final = MOST_ERRORS
RUNTIME_LABELS: Final = ("name", "version", "stream")

# Of a scraped kubelet, whatever its version.
KUBELET: Final = "kubelet_pleg_relist_interval_seconds_count"
# What its relists cost; as they are scraped only.
POLLING: Final = "kubelet_pleg_relist_duration_seconds"
KUBELET_KEPT: Final = "shadow_pleg:node:kubelet:last5m"
KUBELET_BUILD: Final = "kubernetes_build_info"
KUBELET_FEATURES, KUBELET_GATE = "kubernetes_feature_enabled", 'name="EventedPLEG"'

_EVENTS: Final = len(Lifecycle)
# A miss may be by design, a late announcement is not.
_CAUSES: Final = len(Cause)
_EXIT_BUCKETS: Final = len(families.EXIT_TO_EVENT.buckets) + 1
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!=|!~|=)\s*"(?:[^"\\]|\\.)*"')


def scraped_as(metric: Spec) -> str:
    """The name of its samples; of a histogram's, those that are read here."""
    return metric.name + ("_bucket" if isinstance(metric, HistogramSpec) else metric.suffix)


# As it is scraped only.
PRESENT: Final = scraped_as(families.BUILD)


@dataclass(frozen=True, slots=True)
class Kept:
    """A scraped metric, and the recording rule that keeps it of each process."""

    name: str
    metric: Spec
    matchers: str = ""
    # Labels that are kept.
    by: tuple[str, ...] = ()
    # `sum` (of counters), `avg5m` (a share of time) or `last5m`.
    how: str = "sum"
    # At most so many of a process.
    series: int = 1

    @property
    def scraped(self) -> str:
        """Name of what is scraped."""
        return scraped_as(self.metric)

    @property
    def recorded(self) -> str:
        """Name of what the rule keeps."""
        return f"shadow_pleg:process:{self.name}:{self.how}"

    def select(self, *matchers: str, recorded: bool) -> str:
        """Its series, as a rule keeps them or as they are scraped."""
        if recorded:
            return select(self.recorded, *matchers)
        return select(self.scraped, self.matchers, *matchers)


LIFECYCLE: Final = Kept("lifecycle_events", families.LIFECYCLE, by=("event",), series=_EVENTS)
RECEIVED: Final = Kept("events_received", families.EVENTS_RECEIVED)
MISSED: Final = Kept(
    "missed_events", families.MISSED, by=("event", "cause"), series=_EVENTS * _CAUSES
)
LATE: Final = Kept(
    "late_events", families.LATE, by=("event", "cause"), series=_EVENTS * (_CAUSES - 1)
)
UNDECIDED: Final = Kept(
    "undecided_events", families.VERDICTS, f'verdict="{Verdict.UNDECIDED.value}"'
)
GAPS: Final = Kept(
    "steady_event_gaps", families.VERDICTS, f'verdict="{Verdict.GAP.value}", cause=""'
)
ENDS: Final = Kept("stream_disconnects", families.STREAM_DISCONNECTS, NOT_OURS)
STALLS: Final = Kept("stream_stalls", families.STREAM_STALLS)
# Of these conditions the report says how many containers there were, by kind.
COUNTED: Final = {
    "twins": Verdict.TWIN.value,
    "stale_statuses": Verdict.STALE.value,
    "wrong_statuses": Verdict.DISAGREES.value,
}
CONTRADICTED: Final = Kept(
    "contradictions",
    families.CONTRADICTIONS,
    'kind=~"{}"'.format("|".join(COUNTED.values())),
    by=("kind",),
    series=len(COUNTED),
)
REPORTED: Final = {row.name: row for row in CONDITIONS if row.weighs is not None}
_GATED: Final = "|".join(row.name for row in CONDITIONS if row.weighs is Weighs.GATED)
GATED, NOT_GATED = (f'condition{how}"{_GATED}"' for how in ("=~", "!~"))
FLAWED: Final = Kept("flawed_events", families.FLAWED, by=("flaw",), series=len(Flaw))
OOM_KILLS: Final = Kept("oom_kills", families.OOM_KILLS, by=("kind",), series=len(OomKill))
EXIT_TO_EVENT, EXIT_TO_LIST, EXIT_TO_STATUS, EVENT_TO_STATUS = (
    Kept(
        f"{metric.name.removeprefix('shadow_pleg_').removesuffix('_seconds')}_bucket",
        metric,
        by=("le",),
        series=_EXIT_BUCKETS,
    )
    for metric in (
        families.EXIT_TO_EVENT,
        families.EXIT_TO_LIST,
        families.EXIT_TO_STATUS,
        families.EVENT_TO_STATUS,
    )
)
HELD: Final = Kept(
    "conditions",
    families.NODE_CONDITION,
    'condition=~"{}"'.format("|".join(REPORTED)),
    by=("condition",),
    how="avg5m",
    series=len(REPORTED),
)
KERNEL: Final = Kept(
    "kernel_witness",
    families.KERNEL_WITNESS,
    f'state=~"{KernelWitness.WATCHING.value}|{KernelWitness.POLLING.value}"',
    how="last5m",
)
UP: Final = Kept("streaming", families.STREAM_STATE, STREAMING, how="avg5m")
UNSUBSCRIBED: Final = Kept("not_subscribed", families.STREAM_STATE, NOT_WANTED, how="avg5m")
RUNTIME: Final = Kept(
    "runtime",
    families.RUNTIME,
    # The name is empty until the runtime answers for the first time.
    'name!=""',
    by=RUNTIME_LABELS,
    how="last5m",
)

# In this order.
KEPT: Final = tuple(each for each in [*vars().values()] if isinstance(each, Kept))


def kept_have(labels: Iterable[str], *selectors: str) -> bool:
    """Whether these selectors can choose kept series, which have a process' labels only."""
    named = {name for selector in selectors for name in _MATCHER.findall(selector)}
    return named <= {*labels, "job", "instance"}
