"""All conditions of a node, the most urgent first: the only list of them.

Page, node conditions, log, the gauge of conditions, alerts, inhibitions, runbooks, dashboards, the
report's reasons and the docs' tables use this list. A new condition is a row here, and a test.
"""

from collections.abc import Mapping
from typing import Final

from exporter.conditions import sentences as say
from exporter.conditions.account import EXITS, FEW, FEW_ENDS, LEAST_EXITS, LOST, Account
from exporter.conditions.condition import (
    Condition,
    Holds,
    Mood,
    NodeCondition,
    Present,
    Reliance,
    Severity,
    Weighs,
)
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import KernelWitness, OomKill, StreamState
from exporter.runtimes.kubelets import LAST_TRUSTING

# A relist that takes longer is slow.
SLOW_SECONDS: Final = 10.0
TOO_LARGE: Final = "resource_exhausted"
# If more than this share of exits is lost, events gain a kubelet nothing.
MOST: Final = 0.5
# Seconds in which a restarting runtime is back, and in which a slow clean-up is done.
_RESTART: Final = 180.0
_CLEAN_UP: Final = 300.0
_BOTH: Final = tuple(NodeCondition)
_EVENTS, _STATE = NodeCondition
_DRAIN: Final = "drain the node and switch the gate off"


# Called at import: a change that a mutant makes later is never called.
def _standing(verdict: Verdict) -> Holds:  # pragma: no mutate block
    return lambda _, present: present.standing.get(verdict, 0) > 0


def _is_silent(account: Account) -> bool:
    return account.is_lost_beyond(Cause.STALLED) or (
        bool(account.lost(Cause.STALLED)) and not account.received
    )


def _is_losing(account: Account) -> bool:
    return account.is_lost_beyond(Cause.SILENT)


def _is_lossy(account: Account) -> bool:
    return _is_silent(account) or _is_losing(account)


def _loses_most_exits(account: Account, present: Present) -> bool:
    exits = account.lost(*LOST, events=EXITS)
    judged = account.owed(EXITS) - present.unresolved
    return _is_lossy(account) and exits > MOST * judged


def _few_lost(account: Account, _present: Present) -> bool:
    lost = any(account.lost(cause) for cause in LOST if not account.is_slow(cause))
    return bool(lost or account.gaps) and not _is_lossy(account)


CONDITIONS: Final = (
    Condition(
        "starting",
        "Waiting for the runtime's first answer",
        Mood.UNSURE,
        lambda _, present: present.answers is None,
        silent="ends within seconds",
        unknown=_BOTH,
    ),
    Condition(
        "lists_too_large",
        "The runtime's lists are too large",
        Mood.BAD,
        lambda _, present: present.answers is False and present.relist_reason == TOO_LARGE,
        say.too_large,
        when="a list cannot be sent, or exceeds a limit here",
        lasting=_RESTART,
        alert="ListsTooLarge",
        todo="Remove exited containers and their pods by hand (crictl rm), the largest first, until"
        " the kubelet's garbage collection works again",
        unknown=_BOTH,
    ),
    Condition(
        "not_answering",
        "The runtime does not answer",
        Mood.BAD,
        lambda _, present: present.answers is False and present.relist_reason != TOO_LARGE,
        say.not_answering,
        when="relists fail for another reason, or hang",
        lasting=_RESTART,
        alert="RelistStale",
        todo="If `crictl pods` hangs there, too, save the runtime's stacks, then restart it",
        unknown=_BOTH,
    ),
    Condition(
        "stream_silent",
        "The event stream is open and delivers nothing in time",
        Mood.BAD,
        lambda account, _: _is_silent(account),
        say.silent,
        when="more lost as `stalled` than chance explains, or nothing came",
        alert="StreamStalled",
        relied=_DRAIN,
        todo="End the subscriber that does not read, if there is one; else report it to the"
        " runtime's maintainers with /debug/misses",
        severity=Severity.LOSSES,
        node_condition=_EVENTS,
        weighs=Weighs.SAID,
        part_of=("not_answering",),
    ),
    Condition(
        "losing",
        "The event stream loses events",
        Mood.BAD,
        lambda account, _: _is_losing(account),
        say.losing,
        when="more lost as `silent` than chance explains",
        alert="MissedEvents",
        relied=_DRAIN,
        todo="Report it to the runtime's maintainers, with the cases of /debug/misses",
        severity=Severity.LOSSES,
        node_condition=_EVENTS,
        weighs=Weighs.SAID,
        part_of=("stream_silent",),
    ),
    Condition(
        "most_exits_lost",
        "Most exits do not come over the event stream",
        Mood.BAD,
        _loses_most_exits,
        when="one of these two holds",
        silent="raises the severity of these two",
        stops="most exits do not come over its event stream",
    ),
    Condition(
        "twins",
        "Two containers with the same pod and name run at the same time",
        Mood.BAD,
        _standing(Verdict.TWIN),
        say.containers(Verdict.TWIN, "running beside an older one of the same pod and name"),
        when="TWIN",
        lasting=120.0,
        alert="TwinContainers",
        relied=_DRAIN,
        todo="End the older one of the two that shadow-pleg's log names",
        severity=Severity.GATED,
        node_condition=_STATE,
        weighs=Weighs.GATED,
        stops="two containers with the same pod and name run at the same time",
    ),
    Condition(
        "ghosts",
        "The runtime lists containers as running that have ended",
        Mood.BAD,
        _standing(Verdict.GHOST),
        say.containers(Verdict.GHOST, "listed as running without a process"),
        when="GHOST",
        lasting=_CLEAN_UP,
        alert="GhostContainers",
        todo="Delete the pods that shadow-pleg's log names; if they stay, restart the runtime",
        node_condition=_STATE,
        weighs=Weighs.SAID,
    ),
    Condition(
        "strays",
        "Containers run that the runtime does not list",
        Mood.BAD,
        _standing(Verdict.STRAY),
        say.containers(Verdict.STRAY, "running, but not listed as running"),
        when="STRAY",
        lasting=_CLEAN_UP,
        alert="StrayContainers",
        todo="If all containers are strays, see which runtime answers; else end the processes of"
        " those that shadow-pleg's log names: nothing else will",
        node_condition=_STATE,
        weighs=Weighs.SAID,
    ),
    Condition(
        "frozen",
        "Containers are frozen",
        Mood.UNSURE,
        _standing(Verdict.FROZEN),
        say.containers(Verdict.FROZEN, "listed as running, and none of their processes runs"),
        when="FROZEN",
        lasting=_CLEAN_UP,
        silent="may be on purpose",
    ),
    Condition(
        "stale_statuses",
        "The kubelet shows ended containers running",
        Mood.BAD,
        _standing(Verdict.STALE),
        say.containers(Verdict.STALE, "shown running by the kubelet, but ended long ago"),
        when="STALE",
        lasting=_CLEAN_UP,
        alert="StaleStatuses",
        todo="Compare the kubelet's status with crictl for the containers that shadow-pleg's log"
        " names, and restart the kubelet if it stays wrong",
        node_condition=_STATE,
        weighs=Weighs.GATED,
        stops="the kubelet goes on showing ended containers running",
    ),
    Condition(
        "unknown_to_kubelet",
        "Containers run whose pods the kubelet has dropped",
        Mood.BAD,
        _standing(Verdict.UNKNOWN_TO_KUBELET),
        say.containers(Verdict.UNKNOWN_TO_KUBELET, "running, but the kubelet dropped their pods"),
        when="UNKNOWN_TO_KUBELET",
        lasting=_CLEAN_UP,
        alert="UnknownToKubelet",
        todo="Restart the kubelet; if they stay, stop the containers that shadow-pleg's log names",
        node_condition=_STATE,
    ),
    Condition(
        "overdue_process",
        "Processes of terminating pods do not end in time",
        Mood.BAD,
        _standing(Verdict.OVERDUE_PROCESS),
        say.containers(
            Verdict.OVERDUE_PROCESS, "of a pod that should have ended, and their processes live"
        ),
        lasting=_CLEAN_UP,
        when="OVERDUE",
        alert="OverdueTerminations",
        todo="Look for processes in uninterruptible sleep (state D), and in the runtime's log",
        node_condition=_STATE,
    ),
    Condition(
        "overdue_runtime",
        "The runtime does not notice that pods have ended",
        Mood.BAD,
        _standing(Verdict.OVERDUE_RUNTIME),
        say.containers(Verdict.OVERDUE_RUNTIME, "of a pod that has ended, and listed as running"),
        lasting=_CLEAN_UP,
        when="OVERDUE",
        alert="OverdueTerminations",
        todo="Restart the runtime; delete by force what stays, once nothing of it runs",
        node_condition=_STATE,
    ),
    Condition(
        "overdue_kubelet",
        "The kubelet keeps pods that have ended",
        Mood.BAD,
        _standing(Verdict.OVERDUE_KUBELET),
        say.containers(
            Verdict.OVERDUE_KUBELET, "of a pod that has ended and that the kubelet keeps"
        ),
        lasting=_CLEAN_UP,
        when="OVERDUE",
        alert="OverdueTerminations",
        todo="Look in the kubelet's log for volumes that cannot be unmounted; then restart it",
        node_condition=_STATE,
    ),
    Condition(
        "stream_shared",
        "The exporter takes the kubelet's events",
        Mood.BAD,
        lambda _, present: present.exclusive and present.wanted,
        say.shared,
        when="subscribed to an exclusive stream",
        lasting=60.0,
        alert="StreamShared",
        todo="Remove --event-stream=always",
        severity=Severity.GATED,
        unknown=(_EVENTS,),
        weighs=Weighs.SAID,
    ),
    Condition(
        "stream_flapping",
        "The event stream ends again and again",
        Mood.BAD,
        lambda account, _: account.ends > FEW_ENDS,
        say.flapping,
        when="three times or more",
        alert="StreamDown",
        todo="See in shadow-pleg's log why it ends, and whether the runtime restarts",
        unknown=(_EVENTS,),
        weighs=Weighs.SAID,
        part_of=("lists_too_large", "not_answering"),
    ),
    Condition(
        "stream_down",
        "The event stream is down, or was for minutes",
        Mood.UNSURE,
        # Before its first answer, the runtime has not been asked for events either.
        lambda _, present: present.answers is not None and present.wanted and not present.streaming,
        say.down,
        lasting=_RESTART,
        alert="StreamDown",
        todo="See in shadow-pleg's log why it ends, and whether the runtime restarts",
        unknown=(_EVENTS,),
        weighs=Weighs.SAID,
        part_of=("lists_too_large", "not_answering"),
    ),
    Condition(
        "oom_survived",
        "Processes were OOM-killed in containers that run on",
        Mood.UNSURE,
        lambda account, _: bool(account.number(Verdict.OOM, cause=OomKill.SURVIVED)),
        say.counted(
            "OOM kills that ended no container",
            Verdict.OOM,
            OomKill.SURVIVED,
            "Kubernetes does not show them: the container runs on without that process.",
        ),
        when="`survived`",
        alert="OomKills",
        todo="Tell the owner of the pod that shadow-pleg's log names: a process of it was killed"
        " for want of memory, nothing restarts it, and the pod looks healthy",
    ),
    Condition(
        "wrong_statuses",
        "Kubelet and runtime disagree on exit codes or reasons",
        Mood.UNSURE,
        lambda account, _: bool(account.number(Verdict.DISAGREES)),
        say.counted("Statuses with another exit code or reason than announced", Verdict.DISAGREES),
        when="DISAGREES",
        alert="WrongStatuses",
        todo="Distrust the exit codes of the pods that shadow-pleg's log names, and report them",
        weighs=Weighs.GATED,
        stops="the kubelet shows other exit codes than the runtime announces",
    ),
    Condition(
        "oom_mislabelled",
        "The runtime announces OOM kills as other errors",
        Mood.UNSURE,
        lambda account, _: bool(account.number(Verdict.OOM, cause=OomKill.ANNOUNCED_AS_ERROR)),
        say.counted(
            "Ends by OOM kills that were announced as errors",
            Verdict.OOM,
            OomKill.ANNOUNCED_AS_ERROR,
        ),
        when="`announced_as_error`",
        alert="OomKills",
        todo="Treat exit code 137 of the pods that shadow-pleg's log names as OOMKilled, and"
        " upgrade the runtime (containerd#8180, #12260; fixed by #12405)",
        weighs=Weighs.SAID,
    ),
    Condition(
        "flawed_events",
        "Events come with wrong contents",
        Mood.UNSURE,
        lambda account, _: account.number(Verdict.FLAWED) > FEW,
        say.counted(
            f"Events with a flaw, which a kubelet up to {LAST_TRUSTING} believes", Verdict.FLAWED
        ),
        when="more than three",
        alert="FlawedEvents",
        relied="switch the gate off on this node, and report it with the cases of /debug/misses",
        todo="Report it to the runtime's maintainers, with the cases of /debug/misses",
        reliance=Reliance.ALONE,
        weighs=Weighs.TRUSTED,
        stops="events come with wrong contents, and its kubelets take the state from them",
    ),
    Condition(
        "exits_late",
        "Exits are announced late",
        Mood.UNSURE,
        lambda account, _: (
            account.timed >= LEAST_EXITS
            and 2 * account.slow > account.timed
            and not account.is_lagging
        ),
        say.exits_late,
        when="over half of ten or more, by over a second",
        alert="ExitsAnnouncedLate",
        todo="Look for a slow disk and for shims that are stopped or stuck",
        part_of=("lists_too_large", "not_answering", "stream_silent"),
    ),
    Condition(
        "relists_slow",
        "Relists are slow",
        Mood.UNSURE,
        lambda account, present: (
            present.answers is True
            and max(present.relist_seconds, present.overdue) > SLOW_SECONDS
            and not account.is_lagging
        ),
        say.relists_slow,
        when="one took more than 10 s, or is overdue by that",
        lasting=_CLEAN_UP,
        alert="RelistSlow",
        todo="Look for exited containers that nothing removes, and for a lack of CPU or disk",
        part_of=("lists_too_large", "not_answering"),
    ),
    Condition(
        "lists_nearly_too_large",
        "The runtime's lists are nearly too large",
        Mood.UNSURE,
        lambda _, present: present.nearly_unsendable,
        say.nearly_too_large,
        when="one has 12 MiB or more",
        lasting=_CLEAN_UP,
        alert="ListsNearlyTooLarge",
        todo="Remove exited containers, and find out what creates so many, or annotations so large",
        part_of=("lists_too_large",),
    ),
    Condition(
        "garbled_texts",
        "A container has text that is not valid UTF-8",
        Mood.UNSURE,
        lambda _, present: bool(present.garbled),
        say.garbled,
        lasting=_CLEAN_UP,
        alert="GarbledTexts",
        todo="Remove the container that shadow-pleg's log names before the kubelet is upgraded",
    ),
    Condition(
        "few_lost",
        "The event stream lost a few events",
        Mood.UNSURE,
        _few_lost,
        say.few_lost,
        when="no more than chance explains, or a gap",
        silent="within the objective",
    ),
    Condition(
        "contradicted",
        "Events announced what did not happen",
        Mood.UNSURE,
        lambda account, _: account.number(Verdict.CONTRADICTED) > FEW,
        say.counted("Announcements that two relists contradicted", Verdict.CONTRADICTED),
        when="more than three CONTRADICTED",
        silent="the kubelet relists the pod",
    ),
    Condition(
        "discarding",
        "The exporter dropped events",
        Mood.UNSURE,
        lambda account, _: account.discarded > 0,
        say.discarding,
        when="queue full, or unreadable",
        alert="EventsDiscarded",
        todo="End the crash loop that floods the stream, or give shadow-pleg more CPU",
        unknown=(_EVENTS,),
    ),
    Condition(
        "interrupted",
        "The event stream was interrupted",
        Mood.UNSURE,
        lambda account, _: bool(account.lost(Cause.STREAM_DOWN)),
        say.interrupted,
        when="some were lost as `stream_down`",
        silent="stream_down if it lasts",
    ),
    Condition(
        "exporter_lagging",
        "The exporter is too slow to measure",
        Mood.UNSURE,
        lambda account, _: account.is_lagging,
        say.lagging,
        when="woke up half a second late in 1 % of the seconds",
        silent="conditions that measure time are off",
    ),
    Condition(
        "kernel_unseen",
        "The kernel's view of the containers is missing",
        Mood.UNSURE,
        # The cgroups are read with the first relist.
        lambda _, present: (
            present.answers is not None and present.kernel is KernelWitness.UNAVAILABLE
        ),
        say.kernel_unseen,
        when="cgroups unreadable, or not of the listed containers",
        silent="a node may have no such tree",
        unknown=(_STATE,),
    ),
    Condition(
        "no_events",
        "This runtime announces nothing",
        Mood.UNSURE,
        lambda _, present: present.stream in {StreamState.DISABLED, StreamState.UNSUPPORTED},
        say.no_events,
        when="no event stream, or events off",
        lasting=600.0,
        alert="GateWithoutEvents",
        relied="switch the runtime's events on, or the gate off",
        todo="With the kubelet's gate EventedPLEG off, nothing needs to be done",
        reliance=Reliance.GATE_ON,
        unknown=(_EVENTS,),
        weighs=Weighs.SAID,
    ),
    Condition(
        "not_watched",
        "Not watching the event stream",
        Mood.UNSURE,
        lambda _, present: present.stream is StreamState.REFUSED,
        say.not_watched,
        when="`refused`",
        silent="a choice",
        unknown=(_EVENTS,),
    ),
)
# The conditions of a node while no other condition holds.
IDLE: Final = Condition(
    "idle",
    "Watching, nothing has happened",
    Mood.GOOD,
    lambda account, _: not account.owed(),
    when="none of these, and nothing was owed",
    silent="all is well",
)
COMPLETE: Final = Condition(
    "complete",
    "The event stream is complete",
    Mood.GOOD,
    lambda account, _: bool(account.owed()),
    say.complete,
    when="none of these",
    silent="all is well",
)
ALL: Final = (*CONDITIONS, IDLE, COMPLETE)
BY_NAME: Final = {condition.name: condition for condition in ALL}


def holding(account: Account, present: Present, held: Mapping[str, float]) -> tuple[Condition, ...]:
    """All conditions that hold, the most urgent first; the first one is the node's verdict.

    `held`: for how many seconds of the window each condition's state was seen, by name.
    """
    found = tuple(
        each
        for each in CONDITIONS
        if each.holds(account, present)
        or (each.lasting is not None and held.get(each.name, 0.0) > each.lasting)
    )
    return found or tuple(each for each in (IDLE, COMPLETE) if each.holds(account, present))


def now(account: Account, present: Present) -> frozenset[str]:
    """The names of the conditions about the present state that hold in it."""
    return frozenset(
        each.name
        for each in CONDITIONS
        if each.lasting is not None and each.holds(account, present)
    )
