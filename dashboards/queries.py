"""PromQL: selectors, and the sums that several panels share.

Here: expressions as text, and the statistics in them. Not here: what is shown where.

Nothing here reads a metric whose number of series grows with pods. Counts come from the exporter's
own series, because a recording rule looks back over a time of its own; what rules have recorded
(quantiles, availability, the objective's ratio) is read from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dashboards.limits import LIMITS
from exporter import metrics

MISSED: Final = f"{metrics.MISSED.name}_total"
UNDECIDED: Final = f"{metrics.UNDECIDED.name}_total"
LIFECYCLE: Final = f"{metrics.LIFECYCLE.name}_total"
STATE: Final = metrics.STREAM_STATE.name
BUILD: Final = f"{metrics.BUILD.name}_info"
RUNTIME: Final = f"{metrics.RUNTIME.name}_info"

INTERVAL: Final = "$__rate_interval"
RANGE: Final = "$__range"
NODE: Final = f"{LIMITS.cluster}, {LIMITS.node}"
VERSION: Final = "name, version, stream"
# Their titles in a table.
VERSION_NAMES: Final = {"name": "Runtime", "version": "Version", "stream": "Stream"}

_CLUSTER: Final = f'{LIMITS.cluster}=~"$cluster"'
_PLACE: Final = f'{_CLUSTER}, {LIMITS.node}=~"$node"'
_BY_CHOICE: Final = 'state=~"refused|disabled|unsupported"'
_WANTED: Final = 'state=~"streaming|connecting|backoff"'

# Share of the time below which a group of nodes is not judged.
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


def own(name: str, matchers: str = "") -> str:
    """Select series of the exporter."""
    return _select(name, 'job=~"$job"', matchers)


def kubelet(name: str) -> str:
    """Select series of the kubelet."""
    return _select(name, LIMITS.kubelet)


def runtime(name: str) -> str:
    """Select series of the container runtime."""
    return _select(name, LIMITS.runtime)


def recorded(rule: str, matchers: str = "") -> str:
    """Select what a recording rule wrote: level:metric, and :operation where there are several."""
    (name,) = {each for each in LIMITS.records if f"{each}:".startswith(f"shadow_pleg:{rule}:")}
    place = _PLACE if rule.startswith("node:") else _CLUSTER
    return f"{name}{{{', '.join(filter(None, (place, matchers)))}}}"


def increase(series: str, span: str = INTERVAL, by: str = "") -> str:
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


def silent(by: str = "", span: str = RANGE) -> str:
    """Lifecycle events lost while we listened: the k of the statistics."""
    return increase(own(MISSED, 'cause="silent"'), span, by)


def undecided(by: str = "", span: str = RANGE) -> str:
    """Exits that may have been lost; it cannot be known."""
    return increase(own(UNDECIDED), span, by)


def steady_gaps(by: str = "", span: str = RANGE) -> str:
    """Gaps without those that an outage explains."""
    gaps, explained = (own(f"{each.name}_total") for each in (metrics.GAPS, metrics.OUTAGE_GAPS))
    return f"clamp_min({increase(gaps, span, by)} - {increase(explained, span, by)}, 0)"


def judged(by: str = "", span: str = RANGE) -> str:
    """Transitions whose announcement we could have heard, and that were owed one: the n.

    Left out: nodes that were not subscribed by choice at some time of the span, and what was missed
    for another cause than silence.
    """
    deaf = f"max_over_time({own(STATE, _BY_CHOICE)}[{span}]) > 0"
    heard = f"increase({own(LIFECYCLE)}[{span}]) unless on ({NODE}) ({deaf})"
    excused = increase(own(MISSED, 'cause!="silent"'), span, by)
    # A node without a subscription has heard 0, rather than being left out.
    none = f"sum {_by(by)}(0 * {own(LIFECYCLE)})"
    return f"clamp_min((sum {_by(by)}({heard}) or {none}) - {excused}, 0)"


def ratio(by: str = "", span: str = RANGE) -> str:
    """Share of the judged transitions that were missed; absent where nothing was judged."""
    return f"{silent(by, span)} / ({judged(by, span)} > 0)"


def most_losses(lost: str) -> str:
    """Greatest expected number of losses for which so few are a chance of 5 %.

    Poisson's bound within 0.5 % of the exact one: 3 for none.
    """
    return f"(sqrt({lost} + 0.83) + 0.8224)^2"


def bound(by: str = "", span: str = RANGE) -> str:
    """Greatest ratio of misses that fits what was seen, at 95 %; absent where nothing was judged.

    Undecided exits count as lost here, so that the bound stays honest.
    """
    most = most_losses(_in_doubt(by, span))
    return f"clamp_max({most} / ({judged(by, span)} > 0), 1)"


def listening(by: str = "", span: str = RANGE) -> str:
    """Share of the time for which the subscriptions were up."""
    streaming = own(STATE, 'state="streaming"')
    return f"avg {_by(by)}(avg_over_time({streaming}[{span}]))"


def up_now() -> str:
    """Share of the nodes that want a subscription whose subscription is up."""
    streaming = own(STATE, 'state="streaming"')
    return f"sum({streaming}) / (sum({own(STATE, _WANTED)}) > 0)"


def down() -> str:
    """Share of the time for which subscriptions were down, of nodes that want one now."""
    up = f"avg_over_time({recorded('node:stream_availability')}[{RANGE}])"
    return f"1 - avg({up} unless on ({NODE}) {own(STATE, _BY_CHOICE)} == 1)"


def verdict(objective: float, by: str = "", span: str = RANGE) -> str:
    """0 go: the bound is within the objective; 2 no-go: not even the ratio is; 1 neither.

    Nor is it known where no stream was up most of the time: the few that could be heard speak for
    themselves alone.
    """
    allowed = f"{objective} * {judged(by, span)}"
    lost = f"({silent(by, span)} > bool {allowed})"
    doubt = f"({most_losses(_in_doubt(by, span))} > bool {allowed})"
    unsure = f"{doubt} + ({listening(by, span)} < bool {LISTENING})"
    return f"clamp_max(clamp_max({unsure}, 1) + 2 * {lost}, 2)"


def of_version(per_node: str, also: str = "", span: str = RANGE) -> str:
    """The sum of a number of each node by runtime, of nodes that kept theirs in all of the span.

    What a node lost before an upgrade must not be held against its new version. `also`: a label to
    keep beside the node's.
    """
    known = own(RUNTIME, 'name!=""')
    each = f"group by ({NODE}, {VERSION}) (last_over_time({known}[{span}]))"
    one = f"{each} and on ({NODE}) count by ({NODE}) ({each}) == 1"
    labels = ", ".join(filter(None, (VERSION, also)))
    return f"sum by ({labels}) (({per_node}) * on ({NODE}) group_left ({VERSION}) ({one}))"


def _in_doubt(by: str, span: str) -> str:
    return f"{silent(by, span)} + {undecided(by, span)}"


def _select(name: str, *matchers: str) -> str:
    return f"{name}{{{', '.join(filter(None, (_PLACE, *matchers)))}}}"


def _by(labels: str) -> str:
    return f"by ({labels}) " if labels else ""
