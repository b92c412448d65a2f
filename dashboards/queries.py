"""PromQL: selectors, and the sums that several panels share.

Here: expressions as text, and the account of loss in them. Not here: what is shown where; nor a
judgement, which is `shadow-pleg report`'s.

Nothing here reads a metric whose number of series grows with pods. Of one node what is scraped is
counted (`scraped`), of a fleet what recording rules keep of it (`kept`): a sample in five minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dashboards.limits import LIMITS
from exporter import metrics
from exporter.specs import CounterSpec

STATE: Final = metrics.STREAM_STATE.name
BUILD: Final = f"{metrics.BUILD.name}_info"
RUNTIME: Final = f"{metrics.RUNTIME.name}_info"

INTERVAL: Final = "$__rate_interval"
RANGE: Final = "$__range"
NODE: Final = f"{LIMITS.cluster}, {LIMITS.node}"
VERSION: Final = "name, version, stream"
# Their titles in a table.
VERSION_NAMES: Final = {"name": "Runtime", "version": "Version", "stream": "Stream"}
EXITS: Final = 'event="ContainerDied"'
OTHERS: Final = 'event!="ContainerDied"'
SILENT: Final = 'cause="silent"'
STALLED: Final = 'cause="stalled"'
# Missed because the exporter could not hear it, or had to share what it heard.
UNHEARD: Final = 'cause=~"stream_down|discarded|shared"'
# What a kubelet on that node was not told, either.
UNTOLD: Final = 'cause=~"silent|stalled"'
LOSS: Final = 'cause!="by_design"'

_CLUSTER: Final = f'{LIMITS.cluster}=~"$cluster"'
_PLACE: Final = f'{_CLUSTER}, {LIMITS.node}=~"$node"'
_BY_CHOICE: Final = 'state=~"refused|disabled|unsupported"'
_WANTED: Final = 'state=~"streaming|connecting|backoff"'

# Share of the time, or of the nodes, below which too little is heard.
LISTENING: Final = 0.9

# The worse, the greater, so that the worst of two wins in a maximum.
STATES: Final = {
    "streaming": 1,
    "connecting": 2,
    "backoff": 3,
    "refused": 4,
    "unsupported": 5,
    "disabled": 6,
}


Source = Callable[[CounterSpec, str], str]
_ACCOUNT: Final = (metrics.MISSED, metrics.LATE)


def own(name: str, matchers: str = "") -> str:
    """Select series of the exporter."""
    return _select(name, 'job=~"$job"', matchers)


def kubelet(*names: str) -> str:
    """Select series of the kubelet; a metric that was renamed has several names."""
    if len(names) > 1:
        return _select("", f'__name__=~"{"|".join(names)}"', LIMITS.kubelet)
    return _select(*names, LIMITS.kubelet)


def runtime(name: str) -> str:
    """Select series of the container runtime."""
    return _select(name, LIMITS.runtime)


def recorded(rule: str, matchers: str = "") -> str:
    """Select what a recording rule wrote: level:metric, and :operation where there are several."""
    (name,) = {each for each in LIMITS.records if f"{each}:".startswith(f"shadow_pleg:{rule}:")}
    if rule.startswith("process:"):
        return own(name, matchers)
    place = _PLACE if rule.startswith("node:") else _CLUSTER
    return f"{name}{{{', '.join(filter(None, (place, matchers)))}}}"


def scraped(counter: CounterSpec, matchers: str = "") -> str:
    """Select a counter as it is scraped."""
    return own(f"{counter.name}_total", matchers)


def kept(counter: CounterSpec, matchers: str = "") -> str:
    """Select a counter as recording rules keep it, without the labels that nothing here reads."""
    name = counter.name.removeprefix("shadow_pleg_").removeprefix("kube_pod_")
    return recorded(f"process:{name}", matchers)


def increase(series: str, span: str = RANGE, by: str = "") -> str:
    """How often it happened in a span."""
    return f"sum {_by(by)}(increase({series}[{span}]))"


def counted(series: str, by: str = "", of: Callable[[str], str] = own) -> str:
    """How often it happened from one point to the next: points that add up, to whole numbers.

    increase() over one step loses what happens between the last scrape of a window and the first of
    the next, and makes up for it in others. So this is a difference, or all that was counted since
    the exporter (`of` selects who counts) started if that was after the point before.
    """
    started = of("process_start_time_seconds")
    young = f"time() - {started} < $__interval_ms / 1000"
    return (
        f"sum {_by(by)}({series} - {series} offset $__interval >= 0"
        f" or {series} and on ({NODE}, job, instance) {young})"
    )


def rate(series: str, by: str = "") -> str:
    """How often it happens, a second."""
    return f"sum {_by(by)}(rate({series}[{INTERVAL}]))"


def quantile(which: float, histogram: str, by: str = "") -> str:
    """A quantile of a histogram; `histogram` selects its buckets."""
    labels = ", ".join(filter(None, ("le", by)))
    return f"histogram_quantile({which}, {rate(histogram, labels)})"


def mean(total: str, count: str, by: str = "") -> str:
    """The mean of a histogram, from its sum and count; absent where nothing happened."""
    return f"{rate(total, by)} / ({rate(count, by)} > 0)"


def worst(series: str, by_what: str, limit: int) -> str:
    """Those of `series` whose node is among the worst at the end of the range.

    A plain topk chooses again at each step, and draws a hundred lines for ten.
    """
    return f"{series} and on ({NODE}) topk({limit}, {by_what})"


def state_code(by: str = NODE) -> str:
    """The state of each subscription as a number of `STATES`."""
    states = [own(STATE, f'state="{name}"') + f" * {code}" for name, code in STATES.items()]
    return f"max {_by(by)}(\n  " + "\n  or ".join(states) + "\n)"


def age(seen: str, by: str = NODE) -> str:
    """Seconds from a time, 0 until it is known, to its scrape, however old the scrape is."""
    return f"max {_by(by)}(timestamp({seen}) - ({seen} > 0))"


def late(by: str = NODE, at: str = "") -> str:
    """Seconds by which the last successful relist was older than the relist period."""
    seen, period = own(metrics.LAST_SEEN.name) + at, own(metrics.RELIST_PERIOD.name) + at
    return f"clamp_min(max {_by(by)}(timestamp({seen}) - ({seen} > 0) - {period}), 0)"


def lost(which: str, by: str = "", of: Source = kept, at: str = "") -> str:
    """What was lost for good in the time range: missed, and not announced after all."""
    missed, late = (f"increase({of(each, which)}[{RANGE}]{at})" for each in _ACCOUNT)
    # Of each series: a late announcement of before must not hide another node's loss.
    return f"sum {_by(by)}(clamp_min({missed} - {late}, 0))"


def losses(which: str, by: str = "", of: Source = kept) -> str:
    """The same from one point to the next; below zero where an earlier miss is taken back."""
    missed, late = (counted(of(each, which), by) for each in _ACCOUNT)
    return f"{missed} - {late}"


def witnessed(by: str = "", which: str = "") -> str:
    """Lifecycle events that were owed an announcement, in the time range."""
    excused = kept(metrics.MISSED, ", ".join(filter(None, (which, 'cause="by_design"'))))
    return f"{increase(kept(metrics.LIFECYCLE, which), by=by)} - {increase(excused, by=by)}"


def up_now() -> str:
    """Share of the nodes that want a subscription whose subscription is up."""
    streaming = own(STATE, 'state="streaming"')
    return f"sum({streaming}) / (sum({own(STATE, _WANTED)}) > 0)"


def subscribed() -> str:
    """Share of the time for which subscriptions were up, of nodes that want one now."""
    up = f"avg_over_time({recorded('node:stream_availability')}[{RANGE}])"
    return f"avg({up} unless on ({NODE}) {own(STATE, _BY_CHOICE)} == 1)"


def of_version(per_node: str, also: str = "", how: str = "sum") -> str:
    """A number of each node by runtime, of nodes that kept theirs in all of the time range.

    What a node lost before an upgrade must not be held against its new version. `also`: a label to
    keep beside the node's.
    """
    ever = f"last_over_time({recorded('process:runtime')}[{RANGE}])"
    each = f"group by ({NODE}, {VERSION}) ({ever})"
    one = f"{each} and on ({NODE}) count by ({NODE}) ({each}) == 1"
    labels = ", ".join(filter(None, (VERSION, also)))
    return f"{how} by ({labels}) (({per_node}) * on ({NODE}) group_left ({VERSION}) ({one}))"


def _select(name: str, *matchers: str) -> str:
    return f"{name}{{{', '.join(filter(None, (_PLACE, *matchers)))}}}"


def _by(labels: str) -> str:
    return f"by ({labels}) " if labels else ""
