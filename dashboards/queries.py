"""PromQL: selectors, and the sums that several panels share.

Nothing here reads a metric whose number of series grows with pods. Of one node what is scraped is
counted (`scraped`), of a fleet what recording rules keep of it (`kept`): a sample in five minutes.
"""

from collections.abc import Callable
from typing import Final

from alerts import render, values
from alerts.entries import Terms
from exporter.conditions.catalogue import CONDITIONS
from exporter.conditions.condition import Mood
from exporter.metrics import families
from promql.series import (
    KUBELET_BUILD,
    KUBELET_FEATURES,
    KUBELET_GATE,
    LATE,
    MISSED,
    NOT_WANTED,
    RUNTIME_LABELS,
    Kept,
)
from promql.series import RUNTIME as RUNTIMES
from promql.text import by, by_kubelet, join, never_came, only_one, select

# What the alerts' values file says is needed here, too, so that both draw one line.
VALUES: Final = values.load()
LABELS, LINKS, LIMITS = VALUES.labels, VALUES.links, VALUES.thresholds
# The share of lifecycle events that may be missed.
ALLOWED: Final = round(1 - VALUES.slo.objective / 100, 9)
# Names of recording rules.
RECORDS: Final = tuple(
    Terms(VALUES).text(record.name) for each in render.records(VALUES).values() for record in each
)

STATE: Final = families.STREAM_STATE.name
RUNTIME: Final = RUNTIMES.scraped

INTERVAL: Final = "$__rate_interval"
RANGE: Final = "$__range"
NODE: Final = f"{LABELS.cluster}, {LABELS.node}"
VERSION: Final = join(*RUNTIME_LABELS)
SILENT: Final = 'cause="silent"'
STALLED: Final = 'cause="stalled"'
# Missed because the exporter could not receive it, or had to share the stream.
NOT_RECEIVED: Final = 'cause=~"stream_down|discarded|shared"'

_CLUSTER: Final = f'{LABELS.cluster}=~"$cluster"'
_PLACE: Final = f'{_CLUSTER}, {LABELS.node}=~"$node"'

# Share of the time, or of the nodes, below which too little is received.
LISTENING: Final = 0.9

# The worse, the greater, so that the worst of two wins in a maximum.
_WORSE: Final = ("streaming", "connecting", "backoff", "refused", "unsupported", "disabled")
STATES: Final = {name: code for code, name in enumerate(_WORSE, start=1)}
# As a number: 1 is good.
MOODS: Final = {"good": 1, "unsure": 2, "bad": 3}
CONDITION: Final = families.NODE_CONDITION.name
_BAD, _UNSURE = (
    "|".join(row.name for row in CONDITIONS if row.mood is mood) for mood in (Mood.BAD, Mood.UNSURE)
)
NOT_GOOD: Final = f'condition=~"{_BAD}|{_UNSURE}"'

Source = Callable[[Kept, str], str]
_ACCOUNT: Final = (MISSED, LATE)


def own(name: str, matchers: str = "") -> str:
    """Select series of the exporter."""
    return _select(name, 'job=~"$job"', matchers)


def kubelet(*names: str) -> str:
    """Select series of the kubelet; a metric that was renamed has several names."""
    if len(names) > 1:
        return _select("", f'__name__=~"{"|".join(names)}"', VALUES.selectors.kubelet)
    return _select(*names, VALUES.selectors.kubelet)


def runtime(name: str) -> str:
    """Select series of the container runtime."""
    return _select(name, VALUES.selectors.runtime)


def recorded(rule: str) -> str:
    """Select what a recording rule wrote: level:metric, and :operation where there are several."""
    (name,) = {each for each in RECORDS if f"{each}:".startswith(f"shadow_pleg:{rule}:")}
    return select(name, _PLACE if rule.startswith("node:") else _CLUSTER)


def scraped(series: Kept, matchers: str = "") -> str:
    """Select a series as it is scraped."""
    return series.select(_PLACE, 'job=~"$job"', matchers, recorded=False)


def kept(series: Kept, matchers: str = "") -> str:
    """Select a series as recording rules keep it, without the labels that nothing here reads."""
    return series.select(_PLACE, 'job=~"$job"', matchers, recorded=True)


def increase(series: str, span: str = RANGE, per: str = "") -> str:
    """How often it happened in a span."""
    return f"sum {_by(per)}(increase({series}[{span}]))"


def counted(series: str, per: str = "", of: Callable[[str], str] = own) -> str:
    """How often it happened from one point to the next: points that add up, to whole numbers.

    increase() over one step loses what happens between the last scrape of a window and the first of
    the next, and makes up for it in others. So this is a difference, or all that was counted since
    the exporter (`of` selects who counts) started if that was after the point before.
    """
    started = of("process_start_time_seconds")
    young = f"time() - {started} < $__interval_ms / 1000"
    return (
        f"sum {_by(per)}({series} - {series} offset $__interval >= 0"
        f" or {series} and on ({NODE}, job, instance) {young})"
    )


def rate(series: str, per: str = "") -> str:
    """How often it happens, a second."""
    return f"sum {_by(per)}(rate({series}[{INTERVAL}]))"


def worst(series: str, by_what: str, limit: int) -> str:
    """Those of `series` whose node is among the worst at the end of the range.

    A plain topk chooses again at each step, and draws a hundred lines for ten.
    """
    return f"{series} and on ({NODE}) topk({limit}, {by_what})"


def state_code(per: str = NODE) -> str:
    """The state of each subscription as a number of `STATES`."""
    states = [own(STATE, f'state="{name}"') + f" * {code}" for name, code in STATES.items()]
    return f"max {_by(per)}(\n  " + "\n  or ".join(states) + "\n)"


def mood_code(per: str) -> str:
    """The mood of the most urgent condition as a number of `MOODS`."""
    bad, unsure = (own(CONDITION, f'condition=~"{names}"') for names in (_BAD, _UNSURE))
    return f"max {_by(per)}({bad} * 2 or {unsure}) + 1"


def age(seen: str, per: str = NODE) -> str:
    """Seconds from a time, 0 until it is known, to its scrape, however old the scrape is."""
    return f"max {_by(per)}(timestamp({seen}) - ({seen} > 0))"


def lost(which: str, per: str = "", of: Source = kept, at: str = "") -> str:
    """What was lost for good in the time range: missed, and not announced after all."""
    missed, late = (f"increase({of(each, which)}[{RANGE}]{at})" for each in _ACCOUNT)
    return f"sum {_by(per)}({never_came(missed, late)})"


def losses(which: str, per: str = "", of: Source = kept) -> str:
    """The same from one point to the next; below zero where an earlier miss is taken back."""
    missed, late = (counted(of(each, which), per) for each in _ACCOUNT)
    return f"{missed} - {late}"


def subscribed() -> str:
    """Share of the time for which subscriptions were up, of nodes that want one now."""
    up = f"avg_over_time({recorded('node:stream_availability')}[{RANGE}])"
    return f"avg({up} unless on ({NODE}) {own(STATE, NOT_WANTED)} == 1)"


def of_version(per_node: str, also: str = "", how: str = "sum") -> str:
    """A number of each node by runtime, of nodes that kept theirs in all of the time range.

    What a node lost before an upgrade must not be held against its new version. `also`: a label to
    keep beside the node's.
    """
    ever = f"last_over_time({kept(RUNTIMES)}[{RANGE}])"
    one = only_one(f"group {by(NODE, VERSION)} ({ever})", NODE)
    return f"{how} {by(VERSION, also)} (({per_node}) * on ({NODE}) group_left ({VERSION}) ({one}))"


def of_kubelet(per_node: str, *also: str) -> str:
    """A number of each node by its kubelet; `also`: labels to keep beside the node's."""
    gates = _select(KUBELET_FEATURES, VALUES.selectors.kubelet, KUBELET_GATE)
    return by_kubelet(per_node, kubelet(KUBELET_BUILD), gates, f"{RANGE}:$__interval", NODE, *also)


def _select(name: str, *matchers: str) -> str:
    return select(name, _PLACE, *matchers)


def _by(labels: str) -> str:
    return f"{by(labels)} " if labels else ""
