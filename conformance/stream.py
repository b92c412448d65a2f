"""What one subscriber hears: order, contents, and whether what is announced is so."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from conformance.history import Heard, History, Lists, Looked
from conformance.rules import Breach, Judged, Level, each, row
from exporter.cri import runtime_v1_pb2 as pb
from exporter.model.events import EventType, ListedState, ObjectKind
from exporter.model.labels import Flaw

MUST, SHOULD, OBSERVED = Level.MUST, Level.SHOULD, Level.OBSERVED
_RANK: Final = {
    ListedState.CREATED: 0,
    ListedState.RUNNING: 1,
    ListedState.EXITED: 2,
    ListedState.UNKNOWN: 2,
    None: 3,
}
_SECOND: Final = 1_000_000_000
# Beyond what a busy machine explains, in seconds.
_LATE: Final = 10.0
_ORDERED: Final = (EventType.CREATED, EventType.STARTED, EventType.STOPPED)


def lives(history: History) -> dict[str, list[Heard]]:
    """What was heard of each, in order; of a recording, of what it heard from the beginning."""
    found = defaultdict[str, list[Heard]](list)
    for heard in history.heard():
        found[heard.id].append(heard)
    return found


@row(1, "lifecycle", MUST, "KEP-3386; k/k#67923")
def once(history: History) -> Judged:
    """Each transition of a container or sandbox is announced no more than once."""
    of = lives(history)

    def wrong(key: str) -> str:
        number = Counter(heard.fact.type for heard in of[key])
        twice = [kind for kind in number if number[kind] > 1 and not _again(history, key)]
        return f"{twice[0].name} is announced {number[twice[0]]} times" if twice else ""

    return each(history, of, wrong)


def _again(history: History, key: str) -> bool:
    """Whether it belongs to a property of its own: what an exec announces."""
    return key in history.of("exec")


@row(2, "order", MUST, "KEP-3386; cri-o#9738")
def order(history: History) -> Judged:
    """A container's CREATED comes before its STARTED, and that before its STOPPED."""
    of = lives(history)

    def wrong(key: str) -> str:
        first = list(dict.fromkeys(h.fact.type for h in of[key] if h.fact.type in _ORDERED))
        for before, after in pairwise(first):
            if after < before:
                return f"{before.name} comes before {after.name}"
        return ""

    return each(history, (key for key in of if len(of[key]) > 1), wrong)


@row(3, "order", MUST, "k/k pkg/kubelet/pleg/evented.go: it forgets the pod on DELETED")
def last(history: History) -> Judged:
    """Nothing comes after the DELETED of a container, and no id comes back."""
    of = lives(history)

    def wrong(key: str) -> str:
        kinds = [heard.fact.type for heard in of[key]]
        after = [k for k in kinds[kinds.index(EventType.DELETED) :] if k is not EventType.DELETED]
        return f"{after[0].name} comes after DELETED" if after else ""

    gone = (key for key in of if any(h.fact.type is EventType.DELETED for h in of[key]))
    return each(history, gone, wrong)


def _events(history: History, wrong: Callable[[Heard], str]) -> Judged:
    """Judge each event by itself."""
    judged = Judged()
    for heard in history.heard():
        judged.cases += 1
        if what := wrong(heard):
            judged.breaches.append(
                Breach(f"{heard.fact.type.name} {what}", history.story(heard.id))
            )
    return judged


def _flawed(flaw: Flaw, what: str) -> Callable[[Heard], str]:
    return lambda heard: what if heard.fact.flawed and flaw in heard.fact.flawed.flaws else ""


@row(4, "payload", MUST, "k/k#114371; containerd#12390")
def pod_named(history: History) -> Judged:
    """Each event has a pod_sandbox_status with metadata.uid: a kubelet ignores one without."""
    return _events(history, _flawed(Flaw.NO_POD, "names no pod"))


@row(5, "payload", MUST, "cri-o#9663")
def no_empty_status(history: History) -> Judged:
    """No entry of containers_statuses is empty."""
    return _events(history, _flawed(Flaw.EMPTY_STATUS, "holds a status without an id"))


@row(5, "payload", SHOULD, "cri-o#9663")
def own_status(history: History) -> Judged:
    """A container's event holds its own status, but for DELETED."""
    return _events(history, _flawed(Flaw.NO_STATUS, "does not hold its container's status"))


@row(6, "payload", MUST, "k/k pkg/kubelet/pleg/evented.go, up to 1.36")
def own_state(history: History) -> Judged:
    """The state in an event agrees with its type: not created on STARTED, exited on STOPPED."""
    return _events(history, _flawed(Flaw.WRONG_STATE, "shows its container in another state"))


@row(7, "payload", SHOULD, "KEP-3386: a consistent state of the pod")
def others(history: History) -> Judged:
    """The other containers' statuses in an event are no older than what was announced of them."""
    known: dict[str, Heard] = {}
    judged = Judged()
    for heard in history.heard():
        before = [known[told.id] for told in heard.statuses or () if told.id in known]
        judged.cases += bool(before)
        state = {told.id: told.state for told in heard.statuses or ()}
        for one in before:
            kind = one.fact.type
            # Of what is gone an event that was made before may still tell.
            if kind is not EventType.DELETED and one.id != heard.id and state[one.id] < kind:
                what = f"{heard.fact.type.name} shows another one as {_named(state[one.id])}"
                story = history.story(heard.id, one.id)
                judged.breaches.append(Breach(f"{what} after its {kind.name}", story))
        known[heard.id] = heard
    return judged


def _named(state: int) -> str:
    return pb.ContainerState.Name(state)


@row(9, "payload", MUST, "k/k pkg/kubelet/pleg/evented.go: the pod's status takes these times")
def times(history: History) -> Judged:
    """A container ends after it started and before the event of it was made (5 s of tolerance)."""
    return _events(history, _flawed(Flaw.WRONG_TIME, "says that it ended at an impossible time"))


@row(9, "payload", SHOULD, "k/k pkg/kubelet/pleg/evented.go; a start stamped after it returned")
def exact_times(history: History) -> Judged:
    """The times of a container that has ended are in order: started, finished, announced."""
    judged = Judged()
    for heard in _ends(history):
        judged.cases += 1
        if (own := heard.own) is None:
            continue
        early = (own.started_ns - own.finished_ns) / _SECOND
        late = (own.finished_ns - heard.fact.created_at_ns) / _SECOND
        # Five seconds and more are `times`.
        if max(early, late) > 0 and heard.fact.flawed is None:
            what = f"it started {early:.3f} s after it finished" if early > 0 else "announced early"
            judged.breaches.append(Breach(what, history.story(heard.id)))
    return judged


def _ends(history: History) -> Iterator[Heard]:
    """Each STOPPED that has its container's status."""
    stopped = (h for h in history.heard() if h.fact.type is EventType.STOPPED)
    return (h for h in stopped if h.own or (history.findings is not None and h.fact.ended_ns))


@row(9, "payload", SHOULD, "k/k kubelet_evented_pleg_connection_latency_seconds begins there")
def stamps(history: History) -> Judged:
    """An event's created_at is within a second of the clock, and never before the last one's."""
    judged, latest = Judged(), 0
    for heard in history.heard():
        made, came = heard.fact.created_at_ns, heard.fact.received_wall_ns
        judged.cases += 1
        # What is held back for its subscriber is older: `exit-delay` and `late-subscriber` see it.
        if not made or made > came + _SECOND or made < latest:
            judged.breaches.append(Breach("its created_at is wrong", history.story(heard.id)))
        latest = max(latest, made)
    return judged


@row(10, "payload", MUST, "containerd#10740, #11323", "plain")
def pod_status(history: History) -> Judged:
    """PodSandboxStatus has a timestamp only together with the statuses of the containers."""
    answers = history.figures.get("timestamp without statuses", [])
    wrong = [
        Breach("PodSandboxStatus has a timestamp, and no statuses") for each in answers if each
    ]
    return Judged(len(answers), wrong)


@row(11, "lists", MUST, "k/k#139262: an event asks for a relist", "plain")
def list_follows(history: History) -> Judged:
    """What ListContainers and ContainerStatus show after an event is no older than the event."""
    judged = Judged()
    for looked in history.rows:
        if isinstance(looked, Looked):
            judged.cases += 1
            if _RANK[looked.state] < looked.type:
                story = history.story(looked.id, looks=True)
                judged.breaches.append(Breach(str(looked), story))
    return judged


@row(12, "exit", OBSERVED, "containerd: 10 s for task.Delete")
def exit_delay(history: History) -> Judged:
    """An exit is announced within ten seconds, on a machine that is idle."""
    took = []
    judged = Judged()
    for heard in _ends(history):
        ended = heard.own.finished_ns if heard.own else heard.fact.ended_ns or 0
        if ended and not heard.fact.flawed and _idle(history, heard.id):
            took.append((heard.fact.received_wall_ns - ended) / _SECOND)
            if took[-1] > _LATE:
                judged.breaches.append(Breach(f"{took[-1]:.1f} s late", history.story(heard.id)))
    if took:
        took.sort()
        judged.cases, half = len(took), took[len(took) // 2]
        judged.note = f"half within {half:.3f} s, the slowest {took[-1]:.3f} s"
    return judged


def _idle(history: History, key: str) -> bool:
    """Whether nothing else happened meanwhile, as far as that is known."""
    return history.findings is not None or history.cases[key].part == "plain"


@row(13, "lifecycle", OBSERVED, "containerd#8007; docs/compatibility.md")
def sandboxes(history: History) -> Judged:
    """Of each sandbox the same events are announced."""
    of = {
        key: tuple(sorted({heard.fact.type for heard in life}))
        for key, life in lives(history).items()
        if life[0].fact.kind is ObjectKind.SANDBOX and _whole(history, key)
    }
    usual, _ = Counter(of.values()).most_common(1)[0] if of else ((), 0)
    names = " ".join(kind.name for kind in usual)

    def wrong(key: str) -> str:
        return "" if of[key] == usual else "not the same events as of most sandboxes"

    judged = each(history, of, wrong)
    judged.note = f"announced: {names}" if usual else ""
    return judged


def _whole(history: History, key: str) -> bool:
    """Whether a sandbox lived from its beginning to its end while all was well."""
    if history.findings is not None:
        shown = [row for row in history.rows if isinstance(row, Lists)]
        ever = [any(item.id == key for item in row.items) for row in shown]
        return bool(ever) and not ever[0] and not ever[-1]
    return key in history.cases and history.cases[key].part in ALONE


# The parts with one subscriber, in which all is well.
ALONE: Final = (
    *("plain", "exit", "killed", "oom", "at-once", "burst", "grace", "never-started"),
    *("failed-start", "forced-removal", "pod-removal", "attempts", "exec", "update", "large"),
)
