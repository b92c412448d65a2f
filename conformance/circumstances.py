"""What a runtime owes in special cases: odd lives, many subscribers, none, and its own restart."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from conformance.history import MAIN, Act, Heard, History, Lists
from conformance.rules import Breach, Judged, Level, each, row
from conformance.stream import MUST, OBSERVED, SHOULD, lives
from exporter.model.events import EventType, ListedState, ObjectKind
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.labels import Never

CREATE, START, RUN = "CreateContainer", "StartContainer", "RunPodSandbox"
# The subscriber that comes when others have been there for a while.
LATER: Final = "shared-late"
# Seconds without a call that ended: more than a busy machine needs for one.
BLOCKED: Final = 5.0
_LATE: Final = 3.0
# Descriptors that a runtime may have opened meanwhile for itself.
SPARE: Final = 20
_NANOS: Final = 1_000_000_000
_OF_RULE: Final = {
    Never.FAILED_START: "failed-start",
    Never.REMOVED_WITH_SANDBOX: "pod-removal",
    Never.FORCED_REMOVAL: "pod-removal",
}
_PLAIN: Final = ("plain", "exit", "exec", "update", "grace")


def _listed_ended(history: History) -> set[str]:
    shown = (item for row in history.rows if isinstance(row, Lists) for item in row.items)
    return {item.id for item in shown if item.state is ListedState.EXITED}


def owed(history: History, key: str, ended: set[str]) -> list[EventType]:
    """What is announced of a container that was created, and is gone."""
    kinds = [EventType.CREATED]
    if history.cases[key].ran:
        kinds += [EventType.STARTED, EventType.STOPPED]
    elif key in ended:
        kinds.append(EventType.STOPPED)
    return [*kinds, EventType.DELETED]


def _lost(history: History, *parts: str, stream: str = MAIN) -> Judged:
    """Whether all that is owed of the containers of these parts was heard."""
    if history.findings is not None:
        return _lost_in_a_recording(history, history.findings, parts)
    heard: dict[str, set[EventType]] = {}
    for event in history.heard(stream):
        heard.setdefault(event.id, set()).add(event.fact.type)
    ended = _listed_ended(history)

    def wrong(key: str) -> str:
        missing = [k for k in owed(history, key, ended) if k not in heard.get(key, ())]
        return f"{missing[0].name} is never heard" if missing else ""

    return each(history, (key for part in parts for key in history.of(part)), wrong, stream)


def _lost_in_a_recording(
    history: History, findings: Iterable[Finding], parts: tuple[str, ...]
) -> Judged:
    late = Counter((f.container_id, f.event) for f in findings if f.verdict is Verdict.LATE)
    judged = Judged()
    for found in findings:
        if found.verdict not in (Verdict.MISSED, Verdict.GAP, Verdict.CONFIRMED):
            continue
        if _part(found) not in parts:
            continue
        judged.cases += 1
        if found.verdict is not Verdict.CONFIRMED and not late[found.container_id, found.event]:
            what = f"{found.event.label} of a {found.kind.value} is never announced"
            judged.breaches.append(Breach(what, history.story(found.container_id)))
    return judged


def _part(found: Finding) -> str:
    """The part of which a recorded finding tells: by its rule, as nothing else is known."""
    if found.cause in (Cause.STREAM_DOWN, Cause.DISCARDED):
        return "restart"
    if found.rule in _OF_RULE:
        return _OF_RULE[found.rule]
    return "plain" if found.kind is ObjectKind.CONTAINER else ""


@row(1, "lifecycle", MUST, "KEP-3386; k/k#67923")
def announced(history: History) -> Judged:
    """Each creation, start, exit and removal of a container is announced."""
    return _lost(history, *_PLAIN)


def _losses(name: str, number: int, group: str, level: Level, *said: str) -> None:
    """A property: all that is owed of the containers of one part, which has its name.

    `said`: its source, and what is owed.
    """

    def judge(history: History) -> Judged:
        return _lost(history, name)

    source, owed = said
    judge.__name__, judge.__doc__ = name.replace("-", "_"), owed
    # Of some a ledger knows the rule.
    row(number, group, level, source, name, recorded=name in _OF_RULE.values())(judge)


_losses("killed", 23, "exit", MUST, "containerd#12678", "The end of a killed process is announced.")
_losses("oom", 23, "exit", MUST, "containerd#10589", "An OOM kill is announced, as any exit is.")
_losses(
    *("at-once", 23, "exit", MUST, "containerd#10603; cri-o#9840"),
    "A container that ends at once is announced like any other: its start and its exit.",
)
_losses("burst", 23, "exit", MUST, "containerd#12678", "Of many exits at a time none is lost.")
_losses(
    "never-started", 22, "lifecycle", MUST, "KEP-3386", "A container that is never started too."
)
_losses(
    *("failed-start", 22, "lifecycle", SHOULD, "docs/compatibility.md"),
    "The exit of a container whose start failed is announced, if lists show it as exited.",
)
_losses(
    *("forced-removal", 24, "lifecycle", MUST, "KEP-3386"),
    "RemoveContainer of a running container is announced: its exit and its removal.",
)
_losses(
    *("pod-removal", 24, "lifecycle", MUST, "KEP-3386; docs/compatibility.md"),
    "RemovePodSandbox with containers in it is announced, of each container.",
)
_losses(
    *("attempts", 25, "lifecycle", MUST, "k/k#123087"),
    "A second container of the same name and pod is announced like the first one.",
)
_losses(
    *("large", 28, "payload", SHOULD, "gRPC's limit of 4 MiB"), "Events larger than 4 MiB arrive."
)


def _ended(history: History, key: str) -> Heard | None:
    stopped = (h for h in history.heard() if h.id == key and h.fact.type is EventType.STOPPED)
    return next(stopped, None)


def _codes(history: History, *parts: str) -> Judged:
    def wrong(key: str) -> str:
        heard, case = _ended(history, key), history.cases[key]
        if heard is None or case.code is None or heard.fact.exit_code in (case.code, None):
            return ""
        return f"STOPPED has exit code {heard.fact.exit_code}, not {case.code}"

    return each(history, (key for part in parts for key in history.of(part)), wrong)


def _reasons(history: History, *parts: str) -> Judged:
    def wrong(key: str) -> str:
        heard, case = _ended(history, key), history.cases[key]
        if heard is None or not case.reason or heard.fact.reason == case.reason:
            return ""
        return f"STOPPED has the reason {heard.fact.reason or '(none)'}, not {case.reason}"

    return each(history, (key for part in parts for key in history.of(part)), wrong)


@row(8, "exit", MUST, "k/k#104107; cri-o#6973; cri-o#9840", "exit", "killed", "at-once", "grace")
def exit_code(history: History) -> Judged:
    """The exit code in STOPPED is final: 0, 1, 3, 137 of a kill, 143 of an unhandled SIGTERM."""
    return _codes(history, "exit", "killed", "at-once", "grace")


@row(8, "exit", SHOULD, "containerd aa3c50792; cri-o 88e8f422b5", "exit", "killed", "at-once")
def exit_reason(history: History) -> Judged:
    """The reason in STOPPED is final: Completed of exit code 0, else Error."""
    return _reasons(history, "exit", "killed", "at-once")


@row(8, "exit", MUST, "containerd#12260; cri-o#6973", "oom")
def oom_code(history: History) -> Judged:
    """The exit code in STOPPED of an OOM kill is 137."""
    return _codes(history, "oom")


@row(8, "exit", SHOULD, "containerd#8180, #12260, #12405", "oom")
def oom_reason(history: History) -> Judged:
    """The reason in STOPPED of an OOM kill is OOMKilled."""
    return _reasons(history, "oom")


@row(24, "exit", MUST, "CRI: StopContainer's timeout", "grace")
def grace(history: History) -> Judged:
    """A container that ignores SIGTERM is killed after its grace, and announced only then."""

    def wrong(key: str) -> str:
        stopped = next((act for act in history.acts("StopContainer") if act.id == key), None)
        heard = _ended(history, key)
        if stopped is None or heard is None:
            return ""
        return "STOPPED is heard before its grace is over" if _before(heard, stopped) else ""

    return each(history, history.of("grace"), wrong)


# Seconds of grace that the part `grace` gives.
GRACE: Final = 1


def _before(heard: Heard, stopped: Act) -> bool:
    return heard.at < stopped.at - stopped.took + GRACE


@row(22, "lifecycle", MUST, "containerd#13049", "failed-start", "never-started")
def no_false_start(history: History) -> Judged:
    """No STARTED comes of a container that never ran."""
    of = lives(history)

    def wrong(key: str) -> str:
        came = any(heard.fact.type is EventType.STARTED for heard in of.get(key, ()))
        return "STARTED is heard, and its start failed" if came else ""

    return each(history, (*history.of("failed-start"), *history.of("never-started")), wrong)


@row(22, "lifecycle", MUST, "KEP-3386", "failed-create")
def failed_create(history: History) -> Judged:
    """A CreateContainer that fails is not announced."""
    pods = {case.pod for case in history.cases.values() if case.part == "failed-create"}

    def wrong(key: str) -> str:
        strays = [
            h for h in history.heard() if h.fact.sandbox_id == key and h.id not in history.cases
        ]
        return (
            f"{strays[0].fact.type.name} is heard of a container that was not made"
            if strays
            else ""
        )

    return each(history, pods, wrong)


@row(22, "lifecycle", SHOULD, "KEP-3386", "failed-network")
def failed_network(history: History) -> Judged:
    """A sandbox whose network fails is not announced as started, or then also as stopped."""
    of: dict[str, set[EventType]] = {}
    for heard in history.rows:
        if isinstance(heard, Heard) and heard.fact.pod and heard.fact.pod.name == "failed-network":
            of.setdefault(heard.id, set()).add(heard.fact.type)

    def wrong(key: str) -> str:
        started = EventType.STARTED in of[key] and EventType.STOPPED not in of[key]
        return "STARTED is heard, and no STOPPED" if started else ""

    judged = each(history, of, wrong)
    judged.cases = judged.cases or sum(act.id == "failed-network" for act in history.acts(RUN))
    return judged


@row(26, "lifecycle", MUST, "containerd's exit monitor also sees execs", "exec")
def exec(history: History) -> Judged:  # noqa: A001 - its name
    """ExecSync and a failing PullImage are not announced."""
    of = lives(history)

    def wrong(key: str) -> str:
        number = Counter(heard.fact.type for heard in of.get(key, ()))
        twice = [kind.name for kind in number if number[kind] > 1]
        return f"{twice[0]} is heard once more" if twice else ""

    return each(history, history.of("exec"), wrong)


@row(27, "lifecycle", OBSERVED, "the CRI has no CHANGED event", "update")
def update(history: History) -> Judged:
    """UpdateContainerResources is not announced as something else."""
    acts = {act.id: act for act in history.acts("UpdateContainerResources")}
    stops = {act.id: act for act in history.acts("StopContainer")}
    of = lives(history)

    def wrong(key: str) -> str:
        between = [
            h for h in of.get(key, ()) if acts[key].at < h.at < stops[key].at - stops[key].took
        ]
        return f"{between[0].fact.type.name} is heard after it" if between else ""

    return each(history, (key for key in history.of("update") if key in acts), wrong)


@row(29, "lifecycle", MUST, "cri-o#6603; containerd#8007", "handler")
def handler(history: History) -> Judged:
    """A pod of another runtime handler is announced like one of the default handler."""
    judged = _lost(history, "handler")
    judged.note = "the handler of --runtime-handler"
    return judged


@row(30, "lists", MUST, "KEP-5825", "streamed")
def streamed_lists(history: History) -> Judged:
    """A streamed list shows the same as the unary one, each item once."""
    wrong = history.figures.get("streamed", [])
    return Judged(len(wrong), [Breach("the two lists differ") for number in wrong if number])


def subscribers(history: History, prefix: str) -> list[str]:
    """The names of the subscribers of a part."""
    names = dict.fromkeys(each.stream for each in history.connected())
    return [name for name in names if name.startswith(prefix)]


@row(14, "subscribers", MUST, "containerd#7318; cri-o#6466", "shared")
def every_subscriber(history: History) -> Judged:
    """Ten subscribers at a time all hear every event."""
    names = subscribers(history, "shared")
    found = [_lost(history, "shared", stream=name) for name in names if name != LATER]
    breaches = [breach for judged in found for breach in judged.breaches]
    return Judged(sum(judged.cases for judged in found), breaches)


@row(14, "subscribers", MUST, "containerd#7318; cri-o#6466", "shared")
def same_order(history: History) -> Judged:
    """All subscribers hear the events in the same order."""
    judged, ours = Judged(), history.of("shared")
    heard = {
        name: [(h.id, h.fact.type) for h in history.heard(name) if h.id in ours]
        for name in subscribers(history, "shared")
    }
    first: list[tuple[str, EventType]] = max(heard.values(), key=len, default=[])
    for name, events in heard.items():
        judged.cases += 1
        got = set(events)
        for one, other in zip([event for event in first if event in got], events, strict=False):
            if one != other:
                what = f"{name} hears {other[1].name} where another hears {one[1].name}"
                judged.breaches.append(Breach(what, history.story(other[0], streams=[name])))
                break
    return judged


@row(15, "subscribers", MUST, "containerd: a send waits for each subscriber", "frozen")
def frozen_blocks_no_call(history: History) -> Judged:
    """A subscriber that does not read blocks no call of others."""
    stood = history.figures.get("frozen", [])
    calls = [act for act in history.acts(CREATE, "RemoveContainer") if act.took > BLOCKED]
    breaches = [
        Breach(f"no call returned for {seconds:.1f} s", history.story(*{act.id for act in calls}))
        for seconds in stood
        if seconds >= BLOCKED
    ]
    return Judged(len(stood), breaches)


@row(15, "subscribers", MUST, "containerd: a send waits for each subscriber; Falco", "frozen")
def frozen_blocks_no_other(history: History) -> Judged:
    """A subscriber that does not read delays no event to another one."""
    ours = history.of("frozen")
    judged = Judged()
    for heard in history.heard():
        if heard.id in ours:
            judged.cases += 1
            late = (heard.fact.received_wall_ns - heard.fact.created_at_ns) / _NANOS
            if late > _LATE:
                what = f"{heard.fact.type.name} comes {late:.1f} s late"
                judged.breaches.append(Breach(what, history.story(heard.id)))
    return judged


@row(15, "subscribers", SHOULD, "CRI-O: a full channel drops", "frozen")
def frozen_is_told(history: History) -> Judged:
    """A subscriber that did not read hears all the same, or an error tells it that it does not."""
    ends = (each for each in history.connected() if each.stream == "frozen")
    told = any(end.why for end in ends)
    return Judged(1) if told else _lost(history, "frozen", stream="frozen")


@row(16, "subscribers", MUST, "cri-o#9004", "leavers")
def leavers(history: History) -> Judged:
    """Subscribers that leave in the middle cost the others no event."""
    return _lost(history, "leavers")


@row(16, "subscribers", MUST, "cri-o#9004", "leavers")
def leavers_files(history: History) -> Judged:
    """Subscribers that left leave no open file in the runtime."""
    judged = Judged()
    for before, after in zip(*[iter(history.figures.get("descriptors", []))] * 2, strict=False):
        judged.cases += 1
        judged.note = f"{before:.0f} open files before, {after:.0f} after"
        if after > before + SPARE:
            judged.breaches.append(Breach("its open files grew"))
    return judged


@row(17, "subscribers", OBSERVED, "`for range eventC` without the context", "half-open")
def half_open(_history: History) -> Judged:
    """A connection whose other end is gone is noticed."""
    return Judged()


@row(18, "subscribers", SHOULD, "containerd holds five minutes for the first subscriber", "shared")
def late_subscriber(history: History) -> Judged:
    """A later subscriber hears no event twice."""
    judged, before = Judged(), 0
    for came in history.connected():
        if came.up and came.stream == LATER:
            heard = list(history.heard(came.stream))
            number = Counter((h.id, h.fact.type, h.fact.created_at_ns) for h in heard)
            before = sum(h.at < came.at for h in heard)
            judged.cases += 1
            for key, _, _ in (event for event in number if number[event] > 1):
                breach = Breach(
                    "it hears an event twice", history.story(key, streams=[came.stream])
                )
                judged.breaches.append(breach)
    judged.note = f"it is told {before} events from before" if judged.cases else ""
    return judged


@row(19, "subscribers", OBSERVED, "docs/how-it-works.md", "nobody")
def after_the_last(history: History) -> Judged:
    """What happens right after the last subscriber left is told to the next one."""
    return _lost(history, "nobody")


@row(31, "subscribers", MUST, "containerd's queue", "nobody")
def nobody_listens(history: History) -> Judged:
    """While nobody is subscribed no call is blocked."""
    stood = history.figures.get("nobody", [])
    breaches = [Breach(f"no call returned for {s:.1f} s") for s in stood if s >= BLOCKED]
    return Judged(len(stood), breaches)


@row(20, "subscribers", SHOULD, "cri-o#7164: a clean end looks like a crash")
def switched_off(history: History) -> Judged:
    """A runtime that announces nothing says UNIMPLEMENTED, and does not end the stream."""
    refused = history.figures.get("refused", [])
    return Judged(
        len(refused), [Breach("the stream ends cleanly at once") for each in refused if each]
    )


@row(21, "restart", SHOULD, "KEP-3386, recovery; k/k#129827", "restart")
def restart_ends_the_stream(history: History) -> Judged:
    """A subscriber sees that the runtime restarts: by an error, not by a clean end."""
    ends = [each for each in history.connected() if each.why and each.stream == MAIN]
    wrong = [Breach(str(end)) for end in ends if end.why == "eof"]
    return Judged(len(ends), wrong)


def _over(history: History, *, meanwhile: bool) -> Judged:
    """Exits while the runtime was down, or after it."""
    if history.findings is not None:
        return _lost(history, "restart") if meanwhile else Judged()
    down, up = (*history.figures.get("down", ()), 0.0, 0.0)[:2]
    ends = history.figures.get("finished", [])
    ids = [
        key
        for key, end in zip(history.of("restart"), ends, strict=False)
        if (down < end < up) == meanwhile and end > down
    ]

    def wrong(key: str) -> str:
        return "" if _ended(history, key) else "STOPPED is never heard"

    return each(history, ids, wrong)


@row(*(21, "restart", OBSERVED, "KEP-3386; k/k#129827; containerd#11579", "restart"), recorded=True)
def restart_meanwhile(history: History) -> Judged:
    """What ends while the runtime is down is announced when it is up."""
    return _over(history, meanwhile=True)


@row(21, "restart", MUST, "KEP-3386; containerd#11579", "restart")
def restart_later(history: History) -> Judged:
    """What ends after the restart is announced."""
    return _over(history, meanwhile=False)
