"""PromQL: selectors, and the sums that several panels share.

Here: expressions as text, and the statistics in them. Not here: what is shown where.

Nothing here reads a metric whose number of series grows with pods. A recording rule would make a
fleet of thousands cheaper, but the dashboards have to work without the rules, too.
"""

from __future__ import annotations

from typing import Final

from dashboards.limits import LIMITS
from exporter import metrics

MISSED: Final = f"{metrics.MISSED.name}_total"
LIFECYCLE: Final = f"{metrics.LIFECYCLE.name}_total"
STATE: Final = metrics.STREAM_STATE.name
BUILD: Final = f"{metrics.BUILD.name}_info"
RUNTIME: Final = f"{metrics.RUNTIME.name}_info"

INTERVAL: Final = "$__rate_interval"
RANGE: Final = "$__range"
NODE: Final = f"{LIMITS.cluster}, {LIMITS.node}"

_PLACE: Final = f'{LIMITS.cluster}=~"$cluster", {LIMITS.node}=~"$node"'
_DEAF: Final = 'state=~"refused|disabled|unsupported"'

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


def increase(series: str, span: str = INTERVAL, by: str = "") -> str:
    """How often it happened in a span."""
    return f"sum {_by(by)}(increase({series}[{span}]))"


def rate(series: str, by: str = "") -> str:
    """How often it happens, a second."""
    return f"sum {_by(by)}(rate({series}[{INTERVAL}]))"


def quantile(which: float, histogram: str, by: str = "") -> str:
    """A quantile of a histogram; `histogram` selects its buckets."""
    labels = ", ".join(filter(None, ("le", by)))
    return f"histogram_quantile({which}, {rate(histogram, labels)})"


def mean(total: str, count: str, by: str = "") -> str:
    """The mean of a histogram, from its sum and count."""
    return f"{rate(total, by)} / {rate(count, by)}"


def worst(series: str, by_what: str, limit: int) -> str:
    """Those of `series` whose node is among the worst at the end of the range.

    A plain topk chooses again at each step, and draws a hundred lines for ten.
    """
    return f"{series} and on ({NODE}) topk({limit}, {by_what})"


def state_code(by: str = NODE) -> str:
    """The state of each subscription as a number of `STATES`."""
    states = [own(STATE, f'state="{name}"') + f" * {code}" for name, code in STATES.items()]
    return f"max {_by(by)}(\n  " + "\n  or ".join(states) + "\n)"


def age(timestamp: str, by: str = NODE) -> str:
    """Seconds since a time that is 0 until it is known."""
    return f"time() - max {_by(by)}({timestamp} > 0)"


def silent(by: str = "", span: str = RANGE) -> str:
    """Lifecycle events lost while we listened: the k of the statistics."""
    return increase(own(MISSED, 'cause="silent"'), span, by)


def judged(by: str = "", span: str = RANGE) -> str:
    """Transitions whose announcement we could have heard, and that were owed one: the n.

    Left out: nodes that were not subscribed by choice at some time of the span, and what was missed
    for another cause than silence.
    """
    deaf = f"max_over_time({own(STATE, _DEAF)}[{span}]) > 0"
    heard = f"increase({own(LIFECYCLE)}[{span}]) unless on ({NODE}) ({deaf})"
    excused = increase(own(MISSED, 'cause!="silent"'), span, by)
    # A node without a subscription has heard 0, rather than being left out.
    none = f"sum {_by(by)}(0 * {own(LIFECYCLE)})"
    return f"clamp_min((sum {_by(by)}({heard}) or {none}) - {excused}, 0)"


def ratio(by: str = "", span: str = RANGE) -> str:
    """Share of the judged transitions that were missed."""
    return f"{silent(by, span)} / ({judged(by, span)} > 0)"


def bound(by: str = "", span: str = RANGE) -> str:
    """Greatest ratio of misses that fits what was seen, at 95 %.

    With no miss among n it is 3/n, else Poisson's bound for k misses, within 0.5 % of the
    exact one; 1 where nothing was judged.
    """
    return f"clamp_max((sqrt({silent(by, span)} + 0.83) + 0.8224)^2 / {judged(by, span)}, 1)"


def listening(by: str = "", span: str = RANGE) -> str:
    """Share of the time for which the subscriptions were up."""
    streaming = own(STATE, 'state="streaming"')
    return f"avg {_by(by)}(avg_over_time({streaming}[{span}]))"


def verdict(objective: float, by: str = "", span: str = RANGE) -> str:
    """0 go: the bound is within the objective; 2 no-go: not even the ratio is; 1 neither.

    Nor is it known where no stream was up most of the time: the few that could be heard speak for
    themselves alone.
    """
    lost = f"({silent(by, span)} > bool {objective} * {judged(by, span)})"
    unsure = f"({bound(by, span)} > bool {objective}) + ({listening(by, span)} < bool {LISTENING})"
    return f"clamp_max(clamp_max({unsure}, 1) + 2 * {lost}, 2)"


def _select(name: str, *matchers: str) -> str:
    return f"{name}{{{', '.join(filter(None, (_PLACE, *matchers)))}}}"


def _by(labels: str) -> str:
    return f"by ({labels}) " if labels else ""
