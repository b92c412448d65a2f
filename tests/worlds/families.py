"""The families of worlds that are searched, and how deep: each from somewhere interesting.

A family begins after its prelude, so that what takes many steps to come about is near.
"""

from exporter.pleg.profiles import profile_of
from tests.support.facts import CONTAINERD_2, CRIO
from tests.worlds.scene import Rules
from tests.worlds.search import Family

_CONTAINERD_17 = profile_of("containerd", "1.7.24")
_WATCH = ("outage", "renewal", "drop")
_TWICE = ("double", "copy")
_RUNS = ("create c1", "start c1", "list")
_LOST_EXIT = (*_RUNS, "exit c1: STOPPED is lost", "list")
_MISSED_EXIT = (*_LOST_EXIT, "3 s pass", "list")
_HELD_START = ("create c1", "start c1: STARTED is held")
_OUTAGE = (*_RUNS, "the stream is down")
_DEAD = "the processes of c1 end, and the runtime does not notice"
_LEFT = (*_RUNS, "3 s pass", "list", "exit c1", "processes of c1 are left", "list")
_AMID = ("the stream is down", "create c1, unannounced", "start c1, unannounced", "list")
_POD = ("run p1", "create c1", "start c1", "list")

FAMILIES = (
    Family("one container", Rules(troubles=_TWICE, slow=True), CONTAINERD_2, 3, 5),
    Family("two containers", Rules(("c1", "c2"), others=False), CONTAINERD_2, 3, 5),
    Family("a running one", Rules(troubles=_WATCH, slow=True, prelude=_RUNS), CONTAINERD_2, 3, 5),
    Family("a lost exit", Rules(troubles=_WATCH, prelude=_LOST_EXIT), CONTAINERD_2, 3, 5),
    Family("a missed exit", Rules(troubles=_TWICE, prelude=_MISSED_EXIT), CONTAINERD_2, 2, 5),
    Family("never listed", Rules(troubles=_WATCH, prelude=_HELD_START), CONTAINERD_2, 4, 5),
    Family("a failed start", Rules(prelude=("create c1", "fail c1", "list")), CONTAINERD_2, 3, 6),
    Family("an outage", Rules(troubles=_WATCH, prelude=_OUTAGE), CONTAINERD_2, 3, 6),
    Family(
        "a start amid one",
        Rules(troubles=("outage",), prelude=(*_AMID, "the stream is up")),
        CONTAINERD_2,
        3,
        6,
    ),
    Family("two subscribers", Rules(troubles=_WATCH, prelude=_RUNS), _CONTAINERD_17, 3, 5),
    Family("a pod of containerd 1.7", Rules(sandbox=True), _CONTAINERD_17, 4, 5),
    Family("a pod of CRI-O", Rules(sandbox=True, prelude=_POD), CRIO, 4, 6),
    Family("cgroups", Rules(kernel=True), CONTAINERD_2, 4, 6),
    Family(
        "cgroups and outages",
        Rules(kernel=True, troubles=_WATCH, prelude=_RUNS),
        CONTAINERD_2,
        3,
        5,
    ),
    Family("a ghost", Rules(kernel=True, prelude=(*_RUNS, _DEAD, "3 s pass")), CONTAINERD_2, 3, 6),
    Family("a stray", Rules(kernel=True, prelude=_LEFT), CONTAINERD_2, 3, 6),
    Family("cgroups of CRI-O", Rules(kernel=True), CRIO, 3, 6),
)
