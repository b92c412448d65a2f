"""The families of worlds that are searched, and how deep: each from somewhere interesting.

A family begins after its prelude, so that what takes many steps to come about is near.
"""

from tests.worlds.scene import GRACE, LASTS, PATIENCE, SETTLES, TICK, WAIT, Rules
from tests.worlds.search import Family

CONTAINERD_2, CONTAINERD_17 = ("containerd", "2.1.9"), ("containerd", "1.7.24")
CRIO = ("cri-o", "1.36.3")
DEAD = "the processes of c1 end, and the runtime does not notice"
WATCH = ("outage", "renewal", "drop")
TWICE = ("double", "copy")
ODD = ("unknown", "missing", "false", "refused")
BOTH = ("c1", "c2")
RUNS = ("create c1", "start c1", "list")
LOST_EXIT = (*RUNS, "exit c1: STOPPED is lost", "list")
MISSED_EXIT = (*LOST_EXIT, "3 s pass", "list")
EXITED = (*RUNS, "exit c1", "list")
BELOW = (*EXITED, "c1 is deleted below", "ContainerStatus of c1", "remove below c1", "list")
LOST_START = ("create c1", "list", "start c1: STARTED is lost", "exit c1: STOPPED is lost", "list")
SKIPPED = ("create c1: CREATED is lost", "start c1", "list", "exit c1")
LATE = ("create c1: CREATED is lost", "start c1: STARTED is held", "list")
LATE_FIRST = ("create c1: CREATED is held", "start c1: STARTED is lost", "list", "3 s pass")
UP_LATE = (
    *(*RUNS, "the stream is down", "the stream is up", "list", "exit c1: STOPPED is lost"),
    *("another container's event comes", "list"),
)
BETWEEN = ("create c1: CREATED is lost", "start c1", "exit c1", "remove c1")
TWO = (
    *("create c1", "create c2", "start c1: STARTED is lost", "start c2: STARTED is lost"),
    *("the cgroup of c1 has processes", "the cgroup of c2 has processes"),
)
IN_DOUBT = (*LOST_START, "c1 is deleted below", "ContainerStatus of c1", "3 s pass")
EARLY = (
    *("create c1, unannounced", "start c1, unannounced", "the cgroup of c1 has processes"),
    *("the stream is up", "list"),
)
STALLED = (
    *("create c1", "start c1", "create c2", "start c2", "list", "exit c1: STOPPED is lost", "list"),
    *("16 s pass in silence", "list", "another container's event comes"),
    *("exit c2: STOPPED is lost", "list"),
)
OWN = (
    *("the stream is down", "the stream is up", "list"),
    *("create c1", "start c1: STARTED is lost", "list"),
)
HELD = ("create c1", "start c1: STARTED is held")
STALE = (*LOST_EXIT, "create c2: CREATED is held", "3 s pass in silence")
DROPPED = (*RUNS, "an event is dropped here", "list", "exit c1: STOPPED is lost", "list")
RENEWED = (*RUNS, "only a renewed subscription is left", "exit c1: STOPPED is lost", "list")
NEW = (*RUNS, "the stream is down", "the stream is up", "another container's event comes", "list")
AMID = ("the stream is down", "create c1, unannounced", "start c1, unannounced", "list")
AMID_UP = (*AMID, "the stream is up")
POD = ("run p1", "create c1", "start c1", "list")
STOPPED_POD = (*POD, "stop p1", "exit c1", "list")
REMOVED = (*STOPPED_POD, "remove c1: DELETED is lost", "list", "3 s pass")
HALF = ("run p1: STARTED is lost", "list", "3 s pass")
SWEPT = (*POD, "remove all at once", "list")
SWEPT_LATE = (*POD, "exit c1: STOPPED is lost", "list", "remove all at once", "list")
SEEN = ("create c1", "start c1", "the cgroup of c1 has processes")
SHORT = ("create c1", "start c1: STARTED is lost", "the cgroup of c1 has processes", "3 s pass")
SET_UP = ("create c1", "runc sets c1 up", "the cgroup of c1 has processes", "3 s pass", "list")
FAILED = (*SET_UP[:4], "fail c1", "list")
LASTED = (*RUNS, "3 s pass", "list")
GHOST = (*LASTED, DEAD, "the cgroup of c1 has no processes", "3 s pass", "list", "list")
ENDED = (*LASTED, DEAD, "the cgroup of c1 has no processes")
REFUSED = (*RUNS, "the stream is refused")
FORGOTTEN = (*LOST_EXIT, "the stream is refused", "the stream is up")
RESUMED = (*REFUSED, "list", "the stream is up", "exit c1: STOPPED is lost", "list")
GONE = (*REFUSED, "list, c1 is missing", "the stream is up")
STOPPED_17 = ("run p1", "stop p1: STOPPED is lost", "list")
LEFT = (*RUNS, "3 s pass", "list", "exit c1", "processes of c1 are left", "list")
LEFT_BEFORE = (
    *(
        *EARLY[:3],
        "exit c1, unannounced",
        "processes of c1 are left",
        "the stream is up",
        "3 s pass",
    ),
    *("list", "3 s pass", "list"),
)
UNLISTED = (*SHORT[:1], "start c1", *SHORT[2:], "list, c1 is missing")
UNNAMED = (
    *("create c1: CREATED is lost", "start c1: STARTED is lost", "the cgroup of c1 has processes"),
    *("3 s pass", "list, c1 is missing"),
)
TOLD_TWICE = (*SHORT, "the cgroup of c1 still has processes", "exit c1: STOPPED is lost")
NAMED_LATE = (*UNNAMED, "3 s pass", "list, c1 is missing")
NAMED_LAST = (
    *(*UNNAMED, "3 s pass", "exit c1: STOPPED is held"),
    "the cgroup of c1 has no processes",
)
EARLY_END = (
    *(*EARLY[:3], DEAD, "the cgroup of c1 has no processes", "the stream is up", "list"),
    *("exit c1: STOPPED is lost", "list"),
)
WITHOUT_POD = (
    *("run p1", *SEEN, "3 s pass", "list, c1 is missing", "3 s pass"),
    "remove all at once",
)
LASTED_ONCE = (
    *(*SHORT, DEAD, "the cgroup of c1 has no processes", "c1 has processes again"),
    *("the cgroup of c1 has processes", "exit c1: STOPPED is lost"),
    *("the cgroup of c1 has no processes", "list", "remove c1: DELETED is lost", "list"),
)
ASKED_BEFORE = (
    *("create c1", "a list is requested", "start c1: STARTED is lost"),
    *("the cgroup of c1 has processes", "the list is answered, as of its request", "3 s pass"),
    "exit c1: STOPPED is lost",
)
TAKEN_BACK = (
    *("create c1", "runc sets c1 up", "the cgroup of c1 has processes", "a list is requested"),
    *("3 s pass", DEAD, "the cgroup of c1 has no processes"),
)
SEEN_BY_LIST = (
    *("create c1", "runc sets c1 up", "list", "3 s pass in silence", "fail c1"),
    *("the cgroup of c1 has no processes", "remove failed c1", "list"),
)
FAILED_LATE = (
    *("create c1", "runc sets c1 up", "the cgroup of c1 has processes", "3 s pass in silence"),
    *("fail c1", "the cgroup of c1 has no processes", "list", "ContainerStatus of c1"),
)
ENDED_UNSEEN = ("run p1: STARTED is lost", "stop p1", "list")
READY_AGAIN = (
    *(*POD, "exit c1", "list", "remove c1: DELETED is lost", "list, p1 is unknown"),
    "list",
)
LISTED_BACK = (
    *(*POD, "exit c1: STOPPED is lost", "list", "list, c1 is running", "remove all at once"),
    "list",
)
FORCED = (
    *("run p1", *SEEN, "list", "remove all at once", DEAD),
    *("the cgroup of c1 has no processes", "list"),
)
FORCED_UNKNOWN = (*POD, "list, c1 is unknown", "remove all at once", "list")
FOUND_ELSEWHERE = (
    *("run p1", "create c1", "start c1: STARTED is lost", "the cgroup of c1 has processes"),
    *("3 s pass in silence", "exit c1", "the cgroup of c1 has no processes"),
)
AMID_A_LIST = ("create c1", "a list is requested", "start c1", "exit c1")
UNSEEN_POD = ("run p1: STARTED is lost", "stop p1", "remove p1", "list")
LEFT_UNLISTED = (*SEEN, "exit c1", "processes of c1 are left", "3 s pass in silence")
UNLISTED_POD = ("run p1", *SEEN, "remove all at once", "3 s pass", "list", "3 s pass", "list")
SHORT_UNLISTED = (
    *("run p1: CREATED is held", "create c1", "start c1: STARTED is lost"),
    *("the cgroup of c1 has processes", "3 s pass", "exit c1"),
    *("the cgroup of c1 has no processes", "remove c1", "list, p1 is missing"),
)
NEVER_STARTED = (
    *("create c1", "runc sets c1 up", "the cgroup of c1 has processes", "a list is requested"),
    *("3 s pass", "the list is answered", "a list is requested", "3 s pass"),
    *("the processes of c1 end, and the runtime does not notice",),
    *("the cgroup of c1 has no processes", "the list is answered", "remove unstarted c1", "list"),
)
OUT_OF_TURN = (
    *("create c1: CREATED is held", "start c1: STARTED is held"),
    *("STARTED of c1 comes before its turn", "only a renewed subscription is left"),
)
AGAIN = ("false", "unknown")
HIDDEN_EXIT = (*LOST_EXIT, "list, c1 is unknown", "3 s pass")
DOUBT_HIDDEN = (*LOST_START, "list, c1 is unknown", "remove c1")
ENDED_POD = (
    *(*RUNS, "the kubelet shows all its pods", "the kubelet shows c1 ended"),
    *("the kubelet drops the pod of c1", "list", "31 s pass in silence", "list"),
)
UNREAD_EXIT = (*RUNS, "exit c1: STOPPED is unreadable", "list")
UNREAD_FIRST = ("create c1: CREATED is unreadable", "start c1", "exit c1", "list")
DROPPED_FIRST = (*RUNS, "exit c1: STOPPED is lost", "an event is dropped here", "list")
FIRST = (
    *(*RUNS, "the stream is down", "the stream is up", "list"),
    *("exit c1: STOPPED is lost", "list"),
)
BEHIND = (
    *(*RUNS, DEAD, "the cgroup of c1 has no processes", "3 s pass"),
    *("the stream is down", "the stream is up", "another container's event comes", "list"),
    *("exit c1: STOPPED is lost", "list"),
)
ASKED_LATE = (
    *("create c1", "list", "start c1: STARTED is lost", "exit c1", "list", "3 s pass", "list"),
)
STALLED_ON = (
    *("create c1", "start c1", "create c2", "start c2", "list", "exit c1: STOPPED is lost", "list"),
    *("16 s pass in silence", "exit c2: STOPPED is lost", "list"),
)
HALF_MADE = ("run p1: CREATED is lost", "list", "3 s pass")
DEAD_BEFORE = (
    *("create c1, unannounced", "start c1, unannounced", DEAD),
    *("the stream is up", "list"),
)
GHOST_BEFORE = (*DEAD_BEFORE, "3 s pass", "list")
FROZEN = (*RUNS, "the processes of c1 are frozen", "list")
MOVED = (
    *(*LASTED, "the processes of c1 move", "the cgroup of c1 has no processes", "3 s pass"),
    "list",
)
ENDED_AWAY = (*MOVED, "the processes of c1 end elsewhere", "list", "3 s pass")
LEFT_BESIDE = (
    *("create c1", "start c1", "create c2", "start c2", "list", "3 s pass", "list"),
    *("exit c1", "processes of c1 are left", "list", DEAD.replace("c1", "c2")),
    *("the cgroup of c2 has no processes", "list", "3 s pass"),
)
KILLED = (
    *(*LASTED, "ends are told as 137, OOMKilled", "init of c1 is OOM-killed"),
    "the cgroup of c1 has no processes",
)
SAID_SO = (*LASTED, "ends are told as 137, OOMKilled", "exit c1", "list", "3 s pass")
TWO_KILLED = (
    *("create c1", "start c1", "create c2", "start c2", "list", "3 s pass", "list"),
    *("init of c1 is OOM-killed", "the cgroup of c1 has no processes", "exit c2"),
    *("ends are told as 137, OOMKilled", "the cgroup of c2 has no processes"),
)
EARLY_EXIT = (
    *("create c1, unannounced", "start c1, unannounced", "the stream is up"),
    *("exit c1: STOPPED is held", "another container's event comes"),
)
DOUBTED = ("create c1", "list", "start c1: STARTED is lost", "list")
IN_TURN = (
    *(*POD, "exit c1: STOPPED is lost", "remove c1", "stop p1", "remove p1", "list"),
    "3 s pass",
)
OVER = (
    *("the stream is up", "create c1: CREATED is held", "start c1: STARTED is held"),
    *("exit c1: STOPPED is held", "remove c1: DELETED is held", "list"),
)
ASTRIDE = (
    *("the stream is down", "create c1, unannounced", "the stream is up"),
    *("start c1", "exit c1", "remove c1"),
)
UNKNOWN_POD = ("run p1: CREATED is held",)
SWEPT_UNSEEN = (*UNKNOWN_POD, "create c1", "start c1", "remove all at once", "list")
FAILED_IN_POD = ("run p1", "create c1", "fail c1", "list")
GONE_LONG = (*EXITED, "remove c1", "list", "3 s pass", "list")
ON_AND_OFF = (
    *(*RUNS, "exit c1", "processes of c1 are left", "list", "3 s pass in silence"),
    "list, c1 is running",
)
FALSE = (*RUNS, "STOPPED of c1 comes, and it runs on", "list")
LEFT_AT_ONCE = (*RUNS, "exit c1", "processes of c1 are left", "list")
TO_THE_SECOND = (1.0, 30.0 - TICK)
BELIEVED = (*RUNS, "the kubelet shows all its pods", "the kubelet shows c1 running")
STALE_STATUS = (*BELIEVED, "exit c1", "list", "31 s pass in silence", "list")
OLD_LIST = (
    *(*RUNS, "the kubelet shows all its pods", "exit c1", "a list is requested"),
    "the kubelet shows c1 running",
)
SHOWN_FIRST = (
    *("create c1", "start c1", "the kubelet shows all its pods"),
    "the kubelet shows c1 running",
)
TWO_SHOWN = (
    *("create c1", "start c1", "create c2", "start c2", "list", "the kubelet shows all its pods"),
    *("the kubelet shows c1 ended", "the kubelet shows c2 running", "exit c2", "list"),
    *("31 s pass in silence", "list"),
)
LEFT_STALE = (
    *(*BELIEVED, "exit c1", "processes of c1 are left", "list"),
    *("31 s pass in silence", "list"),
)
LONG_GONE = ("the kubelet drops the pod of c1", "list", "31 s pass in silence", "list")
ALMOST_STALE = (*STALE_STATUS[:-2], f"{TO_THE_SECOND[1]:g} s pass in silence")
SUSPECTED = (*STALE_STATUS, "list")
CONFIRMED = (*SUSPECTED, "the kubelet is asked about c1")
UNWATCHED = (*CONFIRMED, "the kubelet is watched no more")
LEFT_BEHIND = (*BELIEVED, *LONG_GONE, "list", "the kubelet is asked about c1")
TO_REMOVE = (*BELIEVED, "the pod of c1 is to be removed")
OVERDUE_POD = (*TO_REMOVE, "32 s pass in silence", "list")
SEEN_OVERDUE = (*OVERDUE_POD, "list", "the kubelet is asked about c1")
KEPT_POD = (*TO_REMOVE, "exit c1", "list", "32 s pass in silence", "list")
DEAD_POD = (
    *(*LASTED, *TO_REMOVE[len(RUNS) :], DEAD, "the cgroup of c1 has no processes"),
    *("32 s pass in silence", "list"),
)
RESTARTED = (
    *(*BELIEVED, "the kubelet is watched no more", "exit c1"),
    *("the kubelet shows all its pods after a restart", "list", "31 s pass in silence", "list"),
    "list",
)
UNSENT = (
    *(*BELIEVED, "that c1 is ended is not sent", "exit c1", "list"),
    *("31 s pass in silence", "list"),
)
# So that what comes after a pause is exactly so much later than what came before it.
EDGES = (GRACE - TICK, PATIENCE * GRACE - TICK)
ENDED_BY_EDGES = (
    *(*RUNS, f"{EDGES[1]:g} s pass in silence", "list", DEAD),
    "the cgroup of c1 has no processes",
)
FAR_BEHIND = (WAIT, 31.0)
UNSETTLED = (89.0, 31.0)
OVERDUE = (WAIT, 31.0 - TICK)
LONG_OVERDUE = (WAIT, 32.0)
SETTLED = (SETTLES - TICK, WAIT)
LASTING = (LASTS - TICK, GRACE - TICK)
# Seconds by which the wall clock is set.
BY_ONE = (1, -1)
BACK, FORWARD, HOURS = (-40,), (40,), (-7200,)
SET_BACK = ("the clock is set by -40 s",)
AHEAD_BEFORE = (
    *("create c1: CREATED is held", "start c1: STARTED is held"),
    "the clock is set by -7200 s",
    *("the stream is up", "list"),
)
UNTIL_CLEAR = (WAIT, 41.0)
TWO_SECONDS = (LASTS - 2 * TICK, WAIT)


def _family(
    name: str,
    prelude: tuple[str, ...] = (),
    *troubles: str,
    runtime: tuple[str, str] = CONTAINERD_2,
    steps: tuple[int, int] = (3, 5),
    **rules: object,
) -> Family:
    quick, long = steps
    if {"kubelet", "delays"} & rules.keys():
        # Their steps and times multiply the states.
        long = min(long, 4)
    return Family(name, Rules(prelude=prelude, troubles=troubles, **rules), runtime, quick, long)  # type: ignore[arg-type]


FAMILIES = (
    _family("nothing yet", (), *WATCH, fresh=True),
    _family("one container", (), *TWICE, slow=True),
    _family("two containers", (), containers=BOTH, others=False),
    _family("a running one", RUNS, *WATCH, slow=True),
    _family("an odd one", RUNS, *ODD),
    _family("odd exits", EXITED, *ODD),
    _family("other names", RUNS, "renamed"),
    _family("a lost exit", LOST_EXIT, *WATCH),
    _family("a lost exit to the second", LOST_EXIT, "outage", pauses=EDGES),
    _family("an event that cannot be read", RUNS, "unread", "outage", steps=(3, 4)),
    _family("an unreadable exit", UNREAD_EXIT, "unread", "outage", "unknown", steps=(3, 4)),
    _family("a skipped step that cannot be read", UNREAD_FIRST, "unread", *TWICE, steps=(3, 4)),
    _family("an unreadable exit amid processes", SEEN, "unread", kernel=True, steps=(3, 4)),
    _family("a drop", DROPPED, "drop"),
    _family("a drop before a lost exit is listed", DROPPED_FIRST, "drop"),
    _family("a drop after the grace", HIDDEN_EXIT, "drop", "unknown", steps=(3, 4)),
    _family("a new connection", NEW, "outage"),
    _family("before a new connection's first event", FIRST, "outage"),
    _family("before a first event of two", FIRST, "outage", runtime=CONTAINERD_17, pauses=SETTLED),
    _family("before a first event of CRI-O", FIRST, "outage", runtime=CRIO, pauses=SETTLED),
    _family("a new connection's first event", UP_LATE, "outage", pauses=SETTLED),
    _family("a new connection's event of the same", OWN, "outage"),
    _family("a new connection to the second", NEW, "outage", pauses=SETTLED),
    _family("a renewal", RENEWED, *WATCH),
    _family("created, and no more", ("create c1", "list"), *ODD),
    _family("refused", REFUSED, *ODD),
    _family("refused, then down", REFUSED, "refused", "outage"),
    _family("a lost exit, and a refusal", FORGOTTEN, "refused"),
    _family("a stream after a refusal", RESUMED, "refused"),
    _family("gone amid a refusal", GONE, *ODD),
    _family("stale news", STALE, containers=BOTH, steps=(3, 4)),
    _family("gone for long", GONE_LONG, *TWICE),
    _family("a false exit", FALSE, "false"),
    _family("a false exit of an unknown one", (*FALSE, "list, c1 is unknown"), *AGAIN),
    _family("lists that go back", EXITED, "created", "running"),
    _family("lists that go back amid processes", (*SHORT[:-1], "list"), "created", kernel=True),
    _family("out of turn over two subscriptions", OUT_OF_TURN, "renewal"),
    _family("a missed exit", MISSED_EXIT, *TWICE, *ODD),
    _family("deleted below", BELOW, "below", steps=(3, 6)),
    _family("a failed start", ("create c1", "fail c1", "list"), steps=(3, 6)),
    _family("a lost start and exit", LOST_START),
    _family("a doubt, and an unknown one", DOUBT_HIDDEN, "unknown", steps=(3, 4)),
    _family("a doubt, and deleted below", IN_DOUBT, "below"),
    _family("a life between lists", BETWEEN),
    _family("a life that began amid an outage", ASTRIDE, "outage"),
    _family("a lost exit by a set clock", LOST_EXIT, clock=BY_ONE),
    _family("a second stall", STALLED, containers=BOTH),
    _family("a stall that lasts", STALLED_ON, containers=BOTH, others=False),
    _family("a skipped step", SKIPPED, *WATCH),
    _family("a skipped step to the second", SKIPPED, pauses=EDGES),
    _family("a skipped step, and a late one", LATE, *WATCH),
    _family("a late first step", LATE_FIRST, "outage"),
    _family("never listed", HELD, *WATCH),
    _family("never listed to the second", ("create c1",), slow=True, pauses=EDGES),
    _family("an outage", (*RUNS, "the stream is down"), *WATCH, steps=(3, 6)),
    _family("a start amid one", AMID_UP, "outage"),
    _family("over before the baseline", OVER, fresh=True),
    _family("a skipped step of two", SKIPPED, runtime=CONTAINERD_17),
    _family("two subscribers", RUNS, *WATCH, runtime=CONTAINERD_17),
    _family("a lost exit of two", LOST_EXIT, *WATCH, runtime=CONTAINERD_17),
    _family("a start amid an outage of two", AMID_UP, "outage", runtime=CONTAINERD_17),
    _family("a pod of containerd 1.7", (), sandbox=True, runtime=CONTAINERD_17),
    _family("a failed pod", ("fail to run p1", "list"), sandbox=True, runtime=CONTAINERD_17),
    _family("a pod that only ended in lists", ENDED_UNSEEN, sandbox=True),
    _family("a pod that no list has", UNSEEN_POD, sandbox=True, runtime=CONTAINERD_17),
    _family("a pod that stopped", STOPPED_17, sandbox=True, runtime=CONTAINERD_17),
    _family("a pod of CRI-O", POD, sandbox=True, runtime=CRIO),
    _family("a pod whose creation is lost", HALF_MADE, sandbox=True, runtime=CRIO),
    _family("an exit in doubt on CRI-O", DOUBTED, runtime=CRIO),
    _family("a start that is asked about late", ASKED_LATE, runtime=CRIO),
    _family("a pod removed in turn", IN_TURN, sandbox=True, runtime=CRIO),
    _family("a pod half announced", HALF, sandbox=True, runtime=CRIO),
    _family("a stopped one", STOPPED_POD, sandbox=True, runtime=CRIO),
    _family("a removed container", REMOVED, sandbox=True, runtime=CRIO),
    _family("removed, and an unknown pod", REMOVED, "unknown", sandbox=True, runtime=CRIO),
    _family("removed, and its pod is ready", READY_AGAIN, "unknown", sandbox=True, runtime=CRIO),
    _family("swept after it was listed back", LISTED_BACK, "running", sandbox=True, runtime=CRIO),
    _family("swept while unknown", FORCED_UNKNOWN, "unknown", sandbox=True, runtime=CRIO),
    _family("swept with its processes", FORCED, sandbox=True, kernel=True, runtime=CRIO),
    _family("a life amid a slow list", AMID_A_LIST, slow=True),
    _family("a pod elsewhere", FOUND_ELSEWHERE, sandbox=True, kernel=True, elsewhere=True),
    _family("removed from containerd", REMOVED, sandbox=True),
    _family("a pod removed after an exit", SWEPT_LATE, sandbox=True, runtime=CRIO),
    _family("a removed pod", SWEPT, sandbox=True, runtime=CRIO, steps=(3, 6)),
    _family("removed with an unknown pod", SWEPT_UNSEEN, sandbox=True, runtime=CRIO),
    _family("a failed start of CRI-O", FAILED_IN_POD, sandbox=True, runtime=CRIO),
    _family("cgroups", (), kernel=True),
    _family("cgroups before the baseline", (), "outage", kernel=True, fresh=True),
    _family("dead before the baseline", DEAD_BEFORE, "dead", kernel=True, fresh=True),
    _family("a ghost from before", GHOST_BEFORE, "dead", "unknown", kernel=True, fresh=True),
    _family("a frozen container", FROZEN, "dead", "unknown", kernel=True),
    _family("processes that moved", MOVED, "moved", "dead", kernel=True),
    _family("moved, and ended", ENDED_AWAY, "moved", "unknown", kernel=True),
    _family("a ghost or a stray", LEFT_BESIDE, "moved", kernel=True, containers=BOTH, steps=(2, 3)),
    _family("OOM kills", LASTED, "oom", kernel=True, steps=(3, 4)),
    _family("OOM kills, once processes have ended", KILLED, "oom", kernel=True, steps=(3, 4)),
    _family(
        *("OOM kills of a pod", TWO_KILLED, "oom", "nameless"),
        kernel=True,
        containers=BOTH,
        steps=(3, 4),
    ),
    _family("a word of an OOM kill", SAID_SO, "oom", "gone", kernel=True, steps=(3, 4)),
    _family("OOM kills by the node's count", KILLED, "oom", "gone", kernel=True, steps=(3, 4)),
    _family("cgroups of what ran before", EARLY, kernel=True, fresh=True),
    _family("cgroups of what runs", RUNS, *WATCH, "refused", kernel=True),
    _family("cgroups to the second", SEEN, kernel=True, pauses=LASTING),
    _family("cgroups reported twice", TOLD_TWICE, "repeat", kernel=True),
    _family("an end before the first read", EARLY_END, kernel=True, fresh=True),
    _family("named late", NAMED_LATE, "missing", kernel=True),
    _family("named last", NAMED_LAST, "missing", kernel=True),
    _family("a stray without a pod", WITHOUT_POD, "missing", kernel=True, sandbox=True),
    _family("processes of an unlisted pod", UNLISTED_POD, kernel=True, sandbox=True),
    _family("a set-up that a list shows", SEEN_BY_LIST, kernel=True),
    _family("a stray that was not listed before", LEFT_UNLISTED, kernel=True),
    _family("a slow start that is known to have failed", FAILED_LATE, kernel=True),
    _family("a stray on and off", ON_AND_OFF, "running", kernel=True),
    _family("what lasted once", LASTED_ONCE, kernel=True),
    _family("a list from before a start", ASKED_BEFORE, kernel=True, slow=True),
    _family("a start taken back", TAKEN_BACK, kernel=True, slow=True),
    _family("no ghost elsewhere", GHOST, kernel=True, elsewhere=True),
    _family("a life of two seconds", (*SHORT[:-1], DEAD), kernel=True, pauses=TWO_SECONDS),
    _family("cgroups, and a first list that fails", EARLY[:3], kernel=True, fresh=True, slow=True),
    _family("a short life", SHORT, kernel=True),
    _family("two cgroups", TWO, containers=BOTH, kernel=True, others=False, steps=(3, 4)),
    _family("a short life to the second", SHORT[:-1], kernel=True, pauses=LASTING),
    _family("a slow start that failed", FAILED, kernel=True),
    _family("a slow start", SET_UP, kernel=True),
    _family("a set-up amid slow lists", NEVER_STARTED, kernel=True, slow=True),
    _family("a ghost", (*LASTED, DEAD, "3 s pass"), "unknown", kernel=True),
    _family("a known ghost", GHOST, "unknown", kernel=True),
    _family("an end that was none", ENDED, "outage", kernel=True),
    _family("cgroups without a stream", REFUSED, "refused", kernel=True),
    _family("a ghost to the second", ENDED_BY_EDGES, kernel=True, pauses=EDGES),
    _family("a stray", LEFT, "unknown", kernel=True),
    _family("a stray from before", LEFT_BEFORE, "unknown", kernel=True, fresh=True),
    _family("a stray that no list has", UNLISTED, "missing", kernel=True, steps=(3, 4)),
    _family("a stray that nothing has named", UNNAMED, "missing", kernel=True, steps=(3, 4)),
    _family("unlisted elsewhere", UNLISTED, "missing", kernel=True, elsewhere=True, steps=(3, 4)),
    _family("a short life in an unknown pod", SHORT_UNLISTED, "missing", sandbox=True, kernel=True),
    _family("cgroups of a pod", ("run p1",), sandbox=True, kernel=True, runtime=CRIO, steps=(3, 4)),
    _family("a stray to the second", LEFT_AT_ONCE, kernel=True, pauses=EDGES),
    _family("cgroups of CRI-O", (), kernel=True, runtime=CRIO),
    _family("a status after a list", OLD_LIST, kubelet=True, slow=True, pauses=FAR_BEHIND),
    _family("a status before a list", SHOWN_FIRST, "missing", kubelet=True, pauses=FAR_BEHIND),
    _family("the statuses of two", TWO_SHOWN, containers=BOTH, kubelet=True, pauses=FAR_BEHIND),
    _family("a stale status unwatched", UNWATCHED, "unknown", kubelet=True, pauses=FAR_BEHIND),
    _family("a kubelet", (), kubelet=True, pauses=FAR_BEHIND),
    _family("a kubelet that shows it", BELIEVED, kubelet=True, pauses=FAR_BEHIND, delays=True),
    _family("a stale status", STALE_STATUS, kubelet=True, pauses=FAR_BEHIND),
    _family("a stale status to the second", ALMOST_STALE, kubelet=True, pauses=TO_THE_SECOND),
    _family(
        "a stale status amid processes",
        LEFT_STALE,
        kernel=True,
        kubelet=True,
        pauses=FAR_BEHIND,
        steps=(3, 4),
    ),
    _family("a known stale status", CONFIRMED, kubelet=True, pauses=FAR_BEHIND),
    _family("an update that is not sent", UNSENT, "unsent", kubelet=True, pauses=FAR_BEHIND),
    _family("after a kubelet's restart", RESTARTED, "restart", kubelet=True, pauses=UNSETTLED),
    _family(
        "a dropped pod", (*BELIEVED, *LONG_GONE), kubelet=True, pauses=FAR_BEHIND, steps=(3, 5)
    ),
    _family("a known leftover", LEFT_BEHIND, kubelet=True, pauses=FAR_BEHIND),
    _family("a dropped pod to the second", (*BELIEVED, LONG_GONE[0]), kubelet=True, pauses=OVERDUE),
    _family("a dropped pod that ended", ENDED_POD, kubelet=True, pauses=FAR_BEHIND, steps=(3, 4)),
    _family("a pod to be removed", TO_REMOVE, "ending", kubelet=True, pauses=LONG_OVERDUE),
    _family("a pod that is kept", KEPT_POD, "ending", kubelet=True, pauses=LONG_OVERDUE),
    *(
        _family(
            name, prelude, "ending", kernel=True, kubelet=True, pauses=LONG_OVERDUE, steps=(3, 4)
        )
        for name, prelude in (
            ("an overdue pod", OVERDUE_POD),
            ("a known overdue pod", SEEN_OVERDUE),
            ("an overdue pod without processes", DEAD_POD),
        )
    ),
    _family("an exit without a reason", BELIEVED, kubelet=True, timeless=True, steps=(3, 4)),
    _family("processes elsewhere", RUNS, kernel=True, elsewhere=True),
    _family("a lost exit elsewhere", LOST_EXIT, kernel=True, elsewhere=True),
    _family("cgroups of an unknown pod", UNKNOWN_POD, sandbox=True, kernel=True, runtime=CRIO),
    _family("left elsewhere", LEFT, kernel=True, elsewhere=True),
    _family("a short life elsewhere", SHORT, kernel=True, elsewhere=True),
    _family("an outage while lists are behind", BEHIND, "outage", kernel=True),
    _family("a clock that is set back", RUNS, clock=BACK, pauses=UNTIL_CLEAR),
    _family("a clock that is set forward", RUNS, clock=FORWARD, pauses=UNTIL_CLEAR),
    _family("a clock that was ahead", SET_BACK, clock=BACK, pauses=UNTIL_CLEAR),
    _family("a life by a clock that was ahead", (*SET_BACK, *BETWEEN), clock=BACK),
    _family("a lost exit, and a clock that was ahead", LOST_EXIT, clock=BACK, pauses=UNTIL_CLEAR),
    _family("held while the clock is set back", HELD, clock=BACK, pauses=UNTIL_CLEAR),
    _family("held while the clock is set forward", HELD, clock=FORWARD, pauses=UNTIL_CLEAR),
    _family("a clock that was set before us", AHEAD_BEFORE, clock=HOURS, fresh=True),
    _family("how late one without a time is", RUNS, kernel=True, delays=True, timeless=True),
    _family("how late an early one is", EARLY_EXIT, clock=BY_ONE, fresh=True, delays=True),
    _family("how late an exit is", RUNS, "outage", clock=BY_ONE, delays=True),
    _family("how late the kernel's is", SEEN, clock=BY_ONE, kernel=True, delays=True),
    _family("how late one of a pod is", POD, "outage", sandbox=True, runtime=CRIO, delays=True),
)
