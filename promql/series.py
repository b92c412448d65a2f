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
from exporter.metrics import families
from exporter.metrics.specs import CounterSpec, GaugeSpec, HistogramSpec, InfoSpec
from exporter.model.events import Lifecycle
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import Flaw, KernelWitness, StreamKind, StreamState
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
# A stream in one of these states owes no announcements.
_BY_CHOICE: Final = (StreamState.DISABLED, StreamState.REFUSED, StreamState.UNSUPPORTED)
STREAMING: Final = f'state="{StreamState.STREAMING.value}"'
NOT_WANTED: Final = 'state=~"{}"'.format("|".join(state.value for state in _BY_CHOICE))
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
_SUFFIXES: Final = {CounterSpec: "_total", InfoSpec: "_info", HistogramSpec: "_bucket"}

_EVENTS: Final = len(Lifecycle)
# A miss may be by design, a late announcement is not.
_CAUSES: Final = len(Cause)
_EXIT_BUCKETS: Final = len(families.EXIT_TO_EVENT.buckets) + 1
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!=|!~|=)\s*"(?:[^"\\]|\\.)*"')


def scraped_as(metric: CounterSpec | GaugeSpec | HistogramSpec | InfoSpec) -> str:
    """The name of its samples; of a histogram's, those that are read here."""
    return metric.name + _SUFFIXES.get(type(metric), "")


# As it is scraped only.
PRESENT: Final = scraped_as(families.BUILD)


@dataclass(frozen=True, slots=True)
class Kept:
    """A scraped metric, and the recording rule that keeps it of each process.

    `by`: labels that are kept. `how`: `sum` (of counters), `avg5m` (a share of time) or `last5m`.
    `series`: at most so many of a process.
    """

    name: str
    about: str
    metric: CounterSpec | GaugeSpec | HistogramSpec | InfoSpec
    matchers: str = ""
    by: tuple[str, ...] = ()
    how: str = "sum"
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


LIFECYCLE: Final = Kept(
    "lifecycle_events",
    "Lifecycle events that the relist or the kernel proved, by event.",
    families.LIFECYCLE,
    by=("event",),
    series=_EVENTS,
)
RECEIVED: Final = Kept(
    "events_received", "Events that came over the stream.", families.EVENTS_RECEIVED
)
MISSED: Final = Kept(
    "missed_events",
    "Missed ones, by event and cause.",
    families.MISSED,
    by=("event", "cause"),
    series=_EVENTS * _CAUSES,
)
LATE: Final = Kept(
    "late_events",
    "Missed, and announced after all, by event and cause of the miss.",
    families.LATE,
    by=("event", "cause"),
    series=_EVENTS * (_CAUSES - 1),
)
UNDECIDED: Final = Kept(
    "undecided_events",
    "Exits that may not have been owed.",
    families.VERDICTS,
    f'verdict="{Verdict.UNDECIDED.value}"',
)
GAPS: Final = Kept(
    "steady_event_gaps",
    "Gaps that nothing explains.",
    families.VERDICTS,
    f'verdict="{Verdict.GAP.value}", cause=""',
)
ENDS: Final = Kept(
    "stream_disconnects",
    "Subscriptions that ended, but for those that the exporter ended itself.",
    families.STREAM_DISCONNECTS,
    NOT_OURS,
)
STALLS: Final = Kept("stream_stalls", "Stalls of the stream.", families.STREAM_STALLS)
# Of these conditions the report says how many containers there were, by kind.
COUNTED: Final = {
    "twins": Verdict.TWIN.value,
    "stale_statuses": Verdict.STALE.value,
    "wrong_statuses": Verdict.DISAGREES.value,
}
CONTRADICTED: Final = Kept(
    "contradictions",
    "Twins, and containers of which the kubelet's status was wrong, by kind.",
    families.CONTRADICTIONS,
    'kind=~"{}"'.format("|".join(COUNTED.values())),
    by=("kind",),
    series=len(COUNTED),
)
REPORTED: Final = {row.name: row for row in CONDITIONS if row.weighs is not None}
HELD: Final = Kept(
    "conditions",
    "Share of the time in which each condition held, of those that matter to a verdict.",
    families.NODE_CONDITION,
    'condition=~"{}"'.format("|".join(REPORTED)),
    by=("condition",),
    how="avg5m",
    series=len(REPORTED),
)
FLAWED: Final = Kept(
    "flawed_events", "Events with a flaw, by flaw.", families.FLAWED, by=("flaw",), series=len(Flaw)
)
EXIT_TO_EVENT, EXIT_TO_LIST, EXIT_TO_STATUS, EVENT_TO_STATUS = (
    Kept(
        f"{metric.name.removeprefix('shadow_pleg_').removesuffix('_seconds')}_bucket",
        f"Exits by the time until their {word}, as a histogram.",
        metric,
        by=("le",),
        series=_EXIT_BUCKETS,
    )
    for word, metric in (
        ("announcement", families.EXIT_TO_EVENT),
        ("listing", families.EXIT_TO_LIST),
        ("status in the kubelet", families.EXIT_TO_STATUS),
        ("status in the kubelet, from their announcement", families.EVENT_TO_STATUS),
    )
)
KERNEL: Final = Kept(
    "kernel_witness",
    "1 while the kernel is a witness: only then are ghosts and strays found.",
    families.KERNEL_WITNESS,
    f'state=~"{KernelWitness.WATCHING.value}|{KernelWitness.POLLING.value}"',
    how="last5m",
)
UP: Final = Kept(
    "streaming",
    "Share of the time in which the stream was up.",
    families.STREAM_STATE,
    STREAMING,
    how="avg5m",
)
UNSUBSCRIBED: Final = Kept(
    "not_subscribed",
    "Share of the time in which it was disabled, refused or unsupported.",
    families.STREAM_STATE,
    NOT_WANTED,
    how="avg5m",
)
RUNTIME: Final = Kept(
    "runtime",
    "The runtime.",
    families.RUNTIME,
    # The name is empty until the runtime answers for the first time.
    'name!=""',
    by=RUNTIME_LABELS,
    how="last5m",
)

KEPT: Final = (
    *(LIFECYCLE, RECEIVED, MISSED, LATE, UNDECIDED, GAPS, ENDS, STALLS, CONTRADICTED, FLAWED),
    *(EXIT_TO_EVENT, EXIT_TO_LIST, EXIT_TO_STATUS, EVENT_TO_STATUS),
    *(HELD, KERNEL, UP, UNSUBSCRIBED, RUNTIME),
)


def kept_have(labels: Iterable[str], *selectors: str) -> bool:
    """Whether these selectors can choose kept series, which have a process' labels only."""
    named = {name for selector in selectors for name in _MATCHER.findall(selector)}
    return named <= {*labels, "job", "instance"}
