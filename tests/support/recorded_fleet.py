"""A large fleet as the recording rules keep it: a sample in five minutes of what a report reads."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from tests.support.prometheus import Series, write_scrapes
from tests.support.report_fleets import CAUSES, DAY, EVENTS, EXIT_EDGES, MINUTE, START

STEP = 5 * MINUTE
# Transitions of a node in five minutes, and how many silent misses a bad node has.
TRANSITIONS, LOST = 300, 7
BAD_ONE_IN = 100
# What none of them has.
_NOTHING = (
    "undecided_events:sum",
    "stream_disconnects:sum",
    "stream_stalls:sum",
    "ghosts:sum",
    "strays:sum",
    "not_subscribed:avg5m",
)


def write_recorded_fleet(file: Path, nodes: int, days: int) -> Path:
    """Write it, from START on."""
    return write_scrapes(file, _series(nodes, range(START - STEP, START + days * DAY + 1, STEP)))


def _series(nodes: int, times: range) -> Iterator[Series]:
    number = len(times)
    growing = times, [TRANSITIONS * i for i in range(number)]
    each = times, [TRANSITIONS // len(EVENTS) * i for i in range(number)]
    nothing, one = (times, [0] * number), (times, [1] * number)
    lost = times, [LOST * (i > number // 2) for i in range(number)]
    scraped = [times[1], times[-1]], [1, 1]
    for i in range(nodes):
        node = {"cluster": "blue", "node": f"node-{i:04}"}
        own = {**node, "job": "shadow-pleg", "instance": f"10.0.{i // 250}.{i % 250}:13386"}
        rule = "shadow_pleg:process:{}"
        runtime = {"name": "containerd", "version": f"2.1.{i % 5}", "stream": "broadcast"}
        for event in EVENTS:
            for cause in CAUSES:
                bad = i % BAD_ONE_IN == 0 and (event, cause) == ("ContainerDied", "silent")
                of = own | {"event": event, "cause": cause}
                missed, late = (rule.format(f"{what}_events:sum") for what in ("missed", "late"))
                yield of | {"__name__": missed}, *(lost if bad else nothing)
                yield of | {"__name__": late}, *nothing
            of = own | {"event": event}
            yield of | {"__name__": rule.format("steady_event_gaps:sum")}, *nothing
            yield of | {"__name__": rule.format("lifecycle_events:sum")}, *each
        for metric in _NOTHING:
            yield own | {"__name__": rule.format(metric)}, *nothing
        for notice, edge in product(("event", "list"), EXIT_EDGES):
            name = {"__name__": rule.format(f"exit_to_{notice}_bucket:sum"), "le": str(edge)}
            yield own | name, *growing
        yield own | {"__name__": rule.format("events_received:sum")}, *growing
        yield own | {"__name__": rule.format("streaming:avg5m")}, *one
        yield own | {"__name__": rule.format("kernel_witness:last5m")}, *one
        yield own | {"__name__": rule.format("runtime:last5m"), **runtime}, *one
        yield node | {"__name__": "shadow_pleg:node:kubelet:last5m", "job": "kubelet"}, *one
        yield own | {"__name__": "shadow_pleg_build_info"}, *scraped
        kubelet = node | {"job": "kubelet", "instance": f"10.0.{i // 250}.{i % 250}:10250"}
        yield kubelet | {"__name__": "kubelet_pleg_relist_interval_seconds_count"}, *scraped
        build = {"__name__": "kubernetes_build_info", "git_version": "v1.36.1"}
        yield kubelet | build, *scraped
