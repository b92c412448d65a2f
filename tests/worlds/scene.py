"""What can happen next in a small world, and the facts that an exporter learns of it.

A scene is the truth: what the containers do, what the runtime still holds back, what the exporter
has asked for. Each step leads to another scene. Not here: what the facts prove.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple, TypeVar

from exporter.cri.decode import Decoder
from exporter.cri.flaws import flaws_of
from exporter.cri.runtime_v1_pb2 import CONTAINER_EXITED, ContainerStatus
from exporter.model.events import (
    Announcement,
    EventType,
    Flawed,
    Inquiry,
    Listed,
    ListedState,
    ObjectKind,
    Pod,
    Status,
)
from exporter.model.facts import (
    BeliefsLost,
    BeliefsShown,
    Believed,
    CgroupChanged,
    CgroupsLost,
    CgroupsRead,
    ClockSet,
    Discarded,
    Fact,
    Inquired,
    Killed,
    KillsCounted,
    Relist,
    StreamAsked,
    StreamDown,
    StreamRefused,
    StreamUnproven,
    StreamUp,
    Unread,
)
from tests.support import cri_messages
from tests.support.facts import ELSEWHERE, EPOCH_NS, wall_ns

_T = TypeVar("_T")
GRACE = 2.5
# Facts are learnt so far apart: nanoseconds of it are a whole number.
TICK = 1 / 512
# Longer than the grace, and longer than a stream may stand still.
WAIT, LONG_WAIT = 3.0, 16.0
HOUR = 3600
LASTS, SETTLES, PATIENCE = 2.0, 0.5, 6
SANDBOX = "p1"
_POD = Pod("shop", "cart", "u1")
CREATED, STARTED, STOPPED, DELETED = EventType
# What a container or sandbox does: from which state to which, and what is announced. `failed`:
# exited without ever having run.
ACTS = {
    "create": ("", "created", (CREATED,)),
    "start": ("created", "running", (STARTED,)),
    "exit": ("running", "exited", (STOPPED,)),
    "fail": ("created", "failed", ()),
    "remove": ("exited", "gone", (DELETED,)),
    "remove below": ("below", "gone", ()),
    "remove failed": ("failed", "dropped", (DELETED,)),
    "remove unstarted": ("created", "dropped", (DELETED,)),
}
SANDBOX_ACTS = {
    "run": ("", "running", (CREATED, STARTED)),
    "fail to run": ("", "exited", ()),
    "stop": ("running", "exited", (STOPPED,)),
    "remove": ("exited", "gone", (DELETED,)),
}
ENDED = {"exited", "failed", "below"}
# How the kubelet may show a container, and how else after that.
END = Status("", ListedState.EXITED, "", 1, "Error")
# How the runtime may tell of an end, too.
OOM_ENDS = ((137, "OOMKilled"), (137, "Error"), (0, "OOMKilled"), (END.exit_code, END.reason))
BELIEFS = {
    "running": Status("", ListedState.RUNNING),
    "ended": END,
    "ended otherwise": END._replace(exit_code=137),
    "ended for another reason": END._replace(reason="ContainerStatusUnknown"),
    "ended without a reason": END._replace(reason=""),
    "out of memory": END._replace(reason="OOMKilled"),
}
MAY_BELIEVE = {
    "": ("running", *list(BELIEFS)[1:]),
    "running": ("", *list(BELIEFS)[1:]),
    **dict.fromkeys(list(BELIEFS)[1:], ("", "running")),
}
SHOWN = {
    "created": ListedState.CREATED,
    "running": ListedState.RUNNING,
    "exited": ListedState.EXITED,
    "failed": ListedState.EXITED,
    "below": ListedState.EXITED,
    "unknown": ListedState.UNKNOWN,
}


@dataclass(frozen=True)
class Rules:
    """Which steps there are in a family of worlds.

    `sandbox`: the pod's sandbox lives, too; else it is listed as ready where there is a `kernel`.
    `others`: another container of the node is announced, so that it is known how far the stream
    has come. `troubles`: what may befall the watch, or is odd about the lists. `slow`: a list may
    be answered later than it is requested. `waits`: how often time may pass, and for long;
    `pauses`: how many seconds. `prelude`: the steps that come before all histories. `fresh`: there
    is neither a stream nor a baseline yet. `elsewhere`: the sandbox keeps its processes out of the
    node's cgroups. `delays`: how late exits are announced, listed and shown counts, too.
    `timeless`: a STOPPED does not say when the exit was, or why. `kubelet`: it shows its pods, of
    which each has one container. `clock`: by how many seconds the wall clock may be set.
    """

    containers: tuple[str, ...] = ("c1",)
    sandbox: bool = False
    kernel: bool = False
    others: bool = True
    troubles: tuple[str, ...] = ()
    slow: bool = False
    waits: tuple[int, int] = (3, 1)
    pauses: tuple[float, float] = (WAIT, LONG_WAIT)
    prelude: tuple[str, ...] = ()
    fresh: bool = False
    elsewhere: bool = False
    delays: bool = False
    timeless: bool = False
    kubelet: bool = False
    clock: tuple[int, ...] = ()

    @property
    def objects(self) -> tuple[str, ...]:
        """The ids of what lives."""
        return (*self.containers, SANDBOX) if self.sandbox else self.containers


class Event(NamedTuple):
    """An announcement that the runtime has made."""

    object_id: str
    type: EventType
    made: float


class Asked(NamedTuple):
    """A list that is requested and not answered."""

    at: float
    states: tuple[str, ...]


class Scene(NamedTuple):
    """The truth at one moment.

    `states`: of each object. `held`: events that the runtime has yet to send, the oldest first.
    `sent`: the last one that came. `stream`: the number of the subscription. `lost`: what the
    runtime lost while the subscription was up. `listed`: the states as the last list showed
    them; `shown`: its items. `inside`: whether each has processes, `seen`: whether the exporter saw
    them. `slow`: those whose set-up takes long. `blind`: it cannot read the cgroups. `waits`: how
    often time may still pass, and for long. `sets`: when the wall clock was set, and by how many
    seconds; `began`: when each container started, if it may be.
    `article`: what the names in lists begin with. `timed`: a STOPPED says when and why. `believed`:
    how the kubelet shows each container, `watched`: the exporter knows of all. `dues`: when each
    pod has to have ended that is to be removed. `frozen`: whose processes are, by place. `away`:
    whose are elsewhere in the pod. `kills`: OOM kills of each that were not read yet, `node`: all
    of the node since the first count, `counted`: those that were read of it; None before the first.
    `told`: with which exit code and reason the runtime tells of ends.
    """

    now: float
    states: tuple[str, ...]
    waits: tuple[int, int]
    up: bool = False
    held: tuple[Event, ...] = ()
    sent: Event | None = None
    stream: int = 0
    lost: frozenset[tuple[str, EventType, bool]] = frozenset()
    asked: Asked | None = None
    listed: tuple[str, ...] = ()
    shown: tuple[Listed, ...] = ()
    inside: tuple[bool, ...] = ()
    seen: tuple[bool, ...] = ()
    blind: bool = False
    slow: frozenset[str] = frozenset()
    sets: tuple[tuple[float, int], ...] = ()
    began: tuple[tuple[str, float], ...] = ()
    article: str = "the"
    timed: bool = True

    def read(self, fact: Fact) -> Fact:
        """The fact as the exporter learns it: with times of the wall clock as it was set then."""
        if not (self.sets and isinstance(fact, Announcement)):
            return fact
        made_ns = self._shown_ns((fact.created_at_ns - EPOCH_NS) / 1e9)
        fact = fact._replace(
            created_at_ns=made_ns,
            received_wall_ns=self._shown_ns(fact.received),
            ended_ns=made_ns if fact.ended_ns else fact.ended_ns,
        )
        began = dict(self.began).get(fact.container_id)
        if fact.type is not STOPPED or began is None:
            return fact
        began_ns = self._shown_ns(began)
        own = ContainerStatus(state=CONTAINER_EXITED, started_at=began_ns, finished_at=made_ns)
        flaws = flaws_of(STOPPED, fact.kind, _POD.uid, own, made_ns)
        return fact._replace(flawed=Flawed(flaws, 1) if flaws else None)

    def _shown_ns(self, at: float) -> int:
        """What the wall clock showed then."""
        return wall_ns(at) + sum(by for since, by in self.sets if since <= at) * 10**9

    def event(self, object_id: str, what: EventType) -> Event:
        """An announcement that the runtime makes now."""
        return Event(object_id, what, self.now)

    believed: tuple[str, ...] = ()
    watched: bool = False
    dues: tuple[float | None, ...] = ()
    frozen: frozenset[int] = frozenset()
    away: frozenset[int] = frozenset()
    kills: tuple[int, ...] = ()
    node: int = 0
    counted: int | None = None
    told: tuple[int, str] = (END.exit_code, END.reason)


Step = tuple[str, Scene, tuple[Fact, ...]]


def opening(rules: Rules) -> tuple[Scene, tuple[Fact, ...]]:
    """A subscription that is known to be served, and the baseline of an empty pod."""
    nothing = tuple("" for _ in rules.objects)
    none_inside = tuple(False for _ in rules.objects)
    scene = Scene(0.0, nothing, rules.waits, listed=nothing, inside=none_inside, seen=none_inside)
    scene = scene._replace(timed=not rules.timeless)
    if rules.kubelet:
        none = tuple(None for _ in rules.containers)
        scene = scene._replace(believed=tuple("" for _ in rules.containers), dues=none)
    facts: list[Fact] = []
    for step in () if rules.fresh else (_connect, _other, _list):
        _, scene, new = step(scene._replace(now=scene.now + 1), rules)
        facts += new
    for name in rules.prelude:
        seconds, in_silence, _ = name.partition(" s pass in silence")
        # A prelude may have a pause of its own.
        pauses = (rules.pauses[0], float(seconds)) if in_silence else rules.pauses
        scene, new = take(scene, replace(rules, pauses=pauses), name)
        # Before its first subscription, or list, it was not there to see.
        facts += (fact for fact in new if scene.stream or not isinstance(fact, ClockSet))
    return scene._replace(waits=rules.waits), tuple(facts)


def take(scene: Scene, rules: Rules, name: str) -> tuple[Scene, tuple[Fact, ...]]:
    """Take the step of that name."""
    for each, after, facts in steps(scene, rules):
        if each == name:
            return after, facts
    raise ValueError(f"no such step here: {name}")


def steps(scene: Scene, rules: Rules) -> Iterator[Step]:
    """All that can happen next."""
    yield from _lives(scene, rules)
    if scene.up:
        yield from _deliveries(scene, rules)
    yield from _lists(scene, rules)
    yield from _troubles(scene, rules)
    yield from _oddities(scene, rules)
    if rules.kernel:
        yield from _cgroups(scene, rules)
    if "moved" in rules.troubles:
        yield from _moves(scene, rules)
    if "oom" in rules.troubles:
        yield from _kills(scene, rules)
    if rules.kubelet:
        yield from _beliefs(scene, rules)
    yield from _answers(scene, rules)
    yield from _times(scene, rules)


# --- the runtime --------------------------------------------------------------


def _lives(scene: Scene, rules: Rules) -> Iterator[Step]:
    for n, object_id in enumerate(rules.objects):
        for act, (old, new, named) in (SANDBOX_ACTS if object_id == SANDBOX else ACTS).items():
            if scene.states[n] != old or (rules.sandbox and not _may(scene, object_id, act)):
                continue
            states = _put(scene.states, n, new)
            inside = _put(scene.inside, n, new == "running")
            slow, began = scene.slow, scene.began
            if act == "start":
                slow -= {object_id}
                began = (*began, (object_id, scene.now)) if rules.clock else ()
            away = scene.away - {n}
            acted = scene._replace(states=states, inside=inside, slow=slow, began=began, away=away)
            yield from _announced(acted, f"{act} {object_id}", object_id, named)
            if "unread" in rules.troubles and scene.up:
                yield from _unread(acted, f"{act} {object_id}", object_id, named)


def _may(scene: Scene, object_id: str, act: str) -> bool:
    """A container is created in a sandbox that runs; what is in a sandbox goes before it."""
    home = scene.states[-1]
    if object_id != SANDBOX:
        return home == "running" or act not in {"create", "start"}
    return act != "remove" or all(state in {"", "gone", "dropped"} for state in scene.states[:-1])


def _announced(
    scene: Scene, name: str, object_id: str, named: tuple[EventType, ...]
) -> Iterator[Step]:
    """The runtime sends that at once, loses one of it, or holds it back."""
    if not named:
        yield name, scene._replace(now=scene.now + TICK), ()
        return
    if scene.up and not any(each.object_id == object_id for each in scene.held):
        yield _sent(scene, name, [scene.event(object_id, what) for what in named])
    if scene.up:
        for what in named:
            kept = [scene.event(object_id, each) for each in named if each is not what]
            without = scene._replace(lost=scene.lost | {(object_id, what, True)})
            yield _sent(without, f"{name}: {what.name} is lost", kept)
    else:
        lost = scene.lost | {(object_id, what, False) for what in named}
        yield f"{name}, unannounced", _later(scene, lost=lost), ()
    held = (*scene.held, *(scene.event(object_id, what) for what in named))
    yield f"{name}: {named[0].name} is held", _later(scene, held=held), ()


def _unread(
    scene: Scene, name: str, object_id: str, named: tuple[EventType, ...]
) -> Iterator[Step]:
    """All of it comes, and one is not fit to be read: the real decoder says what is left of it."""
    for what in named:
        kept = [scene.event(object_id, each) for each in named if each is not what]
        raw = cri_messages.event(container_id=object_id, container_event_type=what) + b"\xff"
        fact = Decoder().event(raw, scene.now, wall_ns(scene.now), scene.stream)
        assert isinstance(fact, Unread)
        lost = scene.lost | {(object_id, what, False)}
        word, after, facts = _sent(_later(scene, lost=lost), name, kept)
        yield f"{word}: {what.name} is unreadable", after, (fact, *facts)


def _sent(scene: Scene, name: str, events: list[Event]) -> Step:
    facts: list[Fact] = []
    for event in events:
        facts.append(_announcement(event, scene))
        scene = _later(scene, sent=event)
    return name, _later(scene), tuple(facts)


def _deliveries(scene: Scene, rules: Rules) -> Iterator[Step]:
    """What was held comes, in its order or not; what came, comes again."""
    for n, event in enumerate(scene.held[:2]):
        rest = scene._replace(held=scene.held[:n] + scene.held[n + 1 :])
        early = " before its turn" if n else ""
        yield _sent(rest, f"{event.type.name} of {event.object_id} comes{early}", [event])
    if scene.sent is not None:
        event = scene.sent
        if "double" in rules.troubles:
            yield _sent(scene, f"{event.type.name} of {event.object_id} comes again", [event])
    if rules.others:
        yield _other(scene, rules)


def _other(scene: Scene, _rules: Rules) -> Step:
    event = _announcement(scene.event(ELSEWHERE, DELETED), scene)
    return "another container's event comes", _later(scene), (event,)


@cache
def _kind(object_id: str) -> ObjectKind:
    return ObjectKind.SANDBOX if object_id == SANDBOX else ObjectKind.CONTAINER


def _announcement(event: Event, scene: Scene) -> Announcement:
    # As containerd 1.7 announces what it has removed.
    kind = _kind(event.object_id) if event.type is not DELETED else None
    return Announcement(
        *(event.object_id, event.type, scene.now, wall_ns(event.made)),
        *(kind, SANDBOX, _POD),
        stream=scene.stream,
        received_wall_ns=wall_ns(scene.now),
        ended_ns=wall_ns(event.made) * scene.timed if event.type is STOPPED else None,
        exit_code=scene.told[0] if event.type is STOPPED else None,
        reason=scene.told[1] * scene.timed if event.type is STOPPED else "",
    )


# --- lists and answers --------------------------------------------------------


def _lists(scene: Scene, rules: Rules) -> Iterator[Step]:
    if scene.asked is None:
        yield _list(scene, rules)
        if rules.slow:
            asked = Asked(scene.now, scene.states)
            yield "a list is requested", _later(scene, asked=asked), ()
        return
    over = scene._replace(asked=None)
    looked, seen = _looked(over, rules)
    yield "the list fails", _later(looked), seen
    yield _answered(over, rules, "the list is answered", scene.asked.at, scene.states)
    if scene.asked.states != scene.states:
        older = scene.asked.at, scene.asked.states
        yield _answered(over, rules, "the list is answered, as of its request", *older)


def _looked(scene: Scene, rules: Rules) -> tuple[Scene, tuple[Fact, ...]]:
    """With each list the exporter looks at all cgroups, too."""
    if not rules.kernel or scene.blind:
        return scene, ()
    facts: tuple[Fact, ...] = ()
    for _, after, new in list(_sights(scene, rules, exact=False)):
        scene = scene._replace(seen=after.seen, kills=after.kills)
        facts += new
    if "oom" in rules.troubles:
        scene, new = _counted(scene, rules)
        facts += new
    if not {"dead", "moved"} & set(rules.troubles):
        return _later(scene), (*facts, CgroupsRead(scene.now))
    # Of those that are listed running: who has no process, by proof, and who is frozen.
    numbers = range(len(rules.containers))
    runs = [n for n in numbers if scene.states[n] == "running"]
    dead = tuple(rules.containers[n] for n in runs if not scene.inside[n])
    if scene.away or any(scene.inside[n] and scene.states[n] == "exited" for n in numbers):
        # Somebody's processes are in no container's cgroup, or in that of an ended one.
        return _later(scene), (*facts, CgroupsRead(scene.now, moved=dead))
    frozen = tuple(rules.containers[n] for n in runs if scene.inside[n] and n in scene.frozen)
    return _later(scene), (*facts, CgroupsRead(scene.now, dead, frozen))


def _list(scene: Scene, rules: Rules) -> Step:
    return _answered(scene, rules, "list", scene.now, scene.states)


def _answered(
    scene: Scene, rules: Rules, name: str, requested: float, states: tuple[str, ...]
) -> Step:
    scene, looked = _looked(scene, rules)
    facts = [*looked]
    items = tuple(
        _item(object_id, SHOWN[state], scene.article)
        for object_id, state in zip(rules.objects, states, strict=True)
        if state in SHOWN
    )
    if rules.kernel and not rules.sandbox:
        home = _item(SANDBOX, ListedState.RUNNING)
        items = (*items, home)
    if rules.elsewhere:
        items = tuple(item._replace(elsewhere=item.id == SANDBOX) for item in items)
    before = {item.id: item for item in scene.shown}
    changed = tuple(item for item in items if before.pop(item.id, None) != item)
    facts.append(Relist(requested, scene.now, len(items), changed, tuple(before)))
    return name, _later(scene, listed=states, shown=items), tuple(facts)


@cache
def _item(object_id: str, state: ListedState, article: str = "the") -> Listed:
    is_sandbox = object_id == SANDBOX
    name, pod = ("", _POD) if is_sandbox else (f"{article} {object_id}", None)
    return Listed(object_id, _kind(object_id), state, SANDBOX, name, pod)


def _answers(scene: Scene, rules: Rules) -> Iterator[Step]:
    """`ContainerStatus` is asked of what the last list shows as exited, and says whether it ran."""
    for n, object_id in enumerate(rules.containers):
        if {scene.listed[n], scene.states[n]} <= ENDED:
            ran = scene.states[n] != "failed"
            answer = Inquiry.STARTED if ran else Inquiry.NEVER_STARTED
            answer = Inquiry.DELETED_BELOW if scene.states[n] == "below" else answer
            fact = Inquired(scene.now, object_id, answer)
            listed = _put(scene.listed, n, "answered")
            yield f"ContainerStatus of {object_id}", _later(scene, listed=listed), (fact,)


# --- the watch ----------------------------------------------------------------


def _connect(scene: Scene, _rules: Rules) -> Step:
    up = _later(scene, up=True, stream=scene.stream + 1)
    asked, answered = StreamAsked(scene.now), StreamUp(scene.now + TICK, scene.now)
    return "the stream is up", _later(up), (asked, answered)


def _troubles(scene: Scene, rules: Rules) -> Iterator[Step]:
    if not scene.up:
        yield _connect(scene, rules)
    if "outage" in rules.troubles and (scene.up or rules.fresh or "refused" in rules.troubles):
        down = _later(scene, up=False, sent=None)
        yield "the stream is down", down, (StreamDown(scene.now),)
    if "renewal" in rules.troubles and scene.up:
        # Its predecessor has ended before an event showed that it is served.
        renewed = _later(scene, stream=scene.stream + 1)
        facts = (StreamAsked(scene.now), StreamUnproven(scene.now + TICK))
        yield "only a renewed subscription is left", _later(renewed), facts
    if "copy" in rules.troubles and scene.up and scene.sent is not None:
        event = _announcement(scene.sent, scene._replace(stream=scene.stream + 1))
        yield "the next subscription brings it, too", _later(scene, sent=None), (event,)
    for by in rules.clock:
        # The blind spot of the page: held back longer than that, and from before the subscription.
        is_blind = -HOUR < by < 0 and scene.held and (rules.fresh or "outage" in rules.troubles)
        if len(scene.sets) < len(rules.clock) and not is_blind:
            set_now = _later(scene, sets=(*scene.sets, (scene.now, by)))
            yield f"the clock is set by {by} s", set_now, (ClockSet(scene.now, by),)
    if "drop" in rules.troubles and scene.up:
        yield "an event is dropped here", _later(scene), (Discarded(scene.now),)


def _oddities(scene: Scene, rules: Rules) -> Iterator[Step]:
    for n, object_id in enumerate(rules.objects):
        state = scene.states[n]
        if "below" in rules.troubles and state == "exited":
            below = _later(scene, states=_put(scene.states, n, "below"))
            yield f"{object_id} is deleted below", below, ()
        words = {"unknown", "missing", "created", "running"} & set(rules.troubles) - {state}
        for word in words if state in SHOWN else ():
            hidden = _put(scene.states, n, word)
            yield _answered(scene, rules, f"list, {object_id} is {word}", scene.now, hidden)
        if "false" in rules.troubles and state == "running" and scene.up:
            event = scene.event(object_id, STOPPED)
            yield _sent(scene, f"STOPPED of {object_id} comes, and it runs on", [event])
    if rules.sandbox and not rules.elsewhere and scene.states[-1] == "running":
        gone = _later(scene, states=tuple(state and "gone" for state in scene.states))
        yield "remove all at once", gone, ()
    if "renamed" in rules.troubles and scene.asked is None:
        renamed = scene._replace(article="that" if scene.article == "the" else "the")
        yield _answered(renamed, rules, "list, with other names", scene.now, scene.states)
    if "refused" in rules.troubles and scene.up:
        refused = _later(scene, up=False, sent=None)
        yield "the stream is refused", refused, (StreamRefused(scene.now),)


# --- the kernel ---------------------------------------------------------------


def _cgroups(scene: Scene, rules: Rules) -> Iterator[Step]:
    if not scene.blind:
        yield from _sights(scene, rules, exact=True)
    for n, object_id in enumerate(rules.containers):
        if scene.inside[n]:
            over = _later(scene, inside=_put(scene.inside, n, value=False))
            yield f"the processes of {object_id} end, and the runtime does not notice", over, ()
        elif scene.states[n] == "exited" and scene.seen[n]:
            stay = _later(scene, inside=_put(scene.inside, n, value=True))
            yield f"processes of {object_id} are left", stay, ()
        elif scene.states[n] == "running":
            again = _later(scene, inside=_put(scene.inside, n, value=True))
            yield f"{object_id} has processes again", again, ()
        elif scene.states[n] == "created":
            short = _later(scene, inside=_put(scene.inside, n, value=True))
            yield f"runc sets {object_id} up", short, ()
        if "dead" in rules.troubles and scene.inside[n]:
            turned = _later(scene, frozen=scene.frozen ^ {n})
            how = "thawed" if n in scene.frozen else "frozen"
            yield f"the processes of {object_id} are {how}", turned, ()
    if scene.blind:
        yield "cgroups can be read again", _later(scene, blind=False), ()
    else:
        none_seen = tuple(False for _ in scene.seen)
        blind = _later(scene, blind=True, seen=none_seen)
        facts: tuple[Fact, ...] = (CgroupsLost(scene.now),)
        if scene.counted is not None:
            blind = blind._replace(counted=None)
            facts = (*facts, KillsCounted(scene.now, None))
        yield "cgroups cannot be read", blind, facts


def _moves(scene: Scene, rules: Rules) -> Iterator[Step]:
    """Processes move to a cgroup of nobody's in their pod, come back, or end there."""
    for n, object_id in enumerate(rules.containers):
        here, there = scene.away - {n}, scene.away | {n}
        if n in scene.away:
            back = _later(scene, inside=_put(scene.inside, n, value=True), away=here)
            yield f"the processes of {object_id} come back", back, ()
            over = _later(scene, away=here)
            yield f"the processes of {object_id} end elsewhere", over, ()
        elif scene.inside[n] and scene.states[n] == "running":
            gone = _later(scene, inside=_put(scene.inside, n, value=False), away=there)
            yield f"the processes of {object_id} move", gone, ()


def _sights(scene: Scene, rules: Rules, *, exact: bool) -> Iterator[Step]:
    """The exporter sees that a cgroup has processes, or has none any more."""
    for n, object_id in enumerate(rules.containers):
        has = scene.inside[n]
        is_news = has is not scene.seen[n]
        if is_news or (exact and "repeat" in rules.troubles):
            wall = wall_ns(scene.now) if exact and not has else 0
            fact = CgroupChanged(object_id, "u1", populated=has, at=scene.now, at_wall_ns=wall)
            words = "still " * (not is_news) + ("has" if has else "has no")
            seen = _later(scene, seen=_put(scene.seen, n, has))
            killed = () if has else _killed(scene, rules, n)
            seen = seen._replace(kills=_put(scene.kills, n, 0)) if killed else seen
            yield f"the cgroup of {object_id} {words} processes", seen, (*killed, fact)


def _kills(scene: Scene, rules: Rules) -> Iterator[Step]:
    """The kernel kills init, another process, or one of no pod; and the runtime has its word."""
    kills = scene.kills or tuple(0 for _ in rules.containers)
    more = scene._replace(node=scene.node + 1)
    yield "a process of no pod is OOM-killed", _later(more), ()
    for n, object_id in enumerate(rules.containers):
        if scene.inside[n] and scene.states[n] == "running":
            killed = more._replace(kills=_put(kills, n, kills[n] + 1))
            yield f"a child in {object_id} is OOM-killed", _later(killed), ()
            over = _later(killed, inside=_put(scene.inside, n, value=False))
            yield f"init of {object_id} is OOM-killed", over, ()
    for code, reason in OOM_ENDS:
        if scene.told != (code, reason):
            told = _later(scene, told=(code, reason))
            yield f"ends are told as {code}, {reason}", told, ()


def _killed(scene: Scene, rules: Rules, n: int) -> tuple[Killed, ...]:
    """What is read of that one's kills; on v1 its count may be gone with it."""
    number = scene.kills[n] if scene.kills and scene.counted is not None else 0
    if not number or ("gone" in rules.troubles and not scene.inside[n]):
        return ()
    named = "" if "nameless" in rules.troubles else rules.containers[n]
    return (Killed(scene.now, named, "u1", number, number),)


def _counted(scene: Scene, rules: Rules) -> tuple[Scene, tuple[Fact, ...]]:
    """The counts beside a relist: the first is what all others are compared with."""
    none = tuple(0 for _ in rules.containers)
    if scene.counted is None:
        scene = scene._replace(kills=none, node=0, counted=0)
        return scene, (KillsCounted(scene.now, 0),)
    if scene.counted == scene.node:
        return scene, ()
    killed = [fact for n in range(len(none)) for fact in _killed(scene, rules, n)]
    after = scene._replace(kills=none, counted=scene.node)
    return after, (*killed, KillsCounted(scene.now, scene.node))


# --- the kubelet --------------------------------------------------------------


def _beliefs(scene: Scene, rules: Rules) -> Iterator[Step]:
    """The kubelet shows a container otherwise, whether that is true or not; and the watch of it."""
    if scene.watched:
        lost = _later(scene, watched=False)
        yield "the kubelet is watched no more", lost, (BeliefsLost(scene.now),)
        for n, object_id in enumerate(rules.containers):
            told = (_believed(scene, n, scene.believed[n], asked=True),)
            yield f"the kubelet is asked about {object_id}", _later(scene), told
    else:
        shown: tuple[Fact, ...] = tuple(
            _believed(scene, n, word) for n, word in enumerate(scene.believed) if word
        )
        watched = _later(scene, watched=True)
        yield "the kubelet shows all its pods", watched, (*shown, BeliefsShown(scene.now))
        if "restart" in rules.troubles:
            again = (*shown, BeliefsShown(scene.now, restarted=True))
            yield "the kubelet shows all its pods after a restart", watched, again
    for n, object_id in enumerate(rules.containers):
        for word in MAY_BELIEVE[scene.believed[n]]:
            new = _later(scene, believed=_put(scene.believed, n, word))
            named = (_believed(scene, n, word),) if scene.watched else ()
            yield f"the kubelet shows {object_id} {word or 'no more'}", new, named
            if "unsent" in rules.troubles and scene.watched:
                yield f"that {object_id} is {word or 'no more'} is not sent", new, ()
        if scene.believed[n]:
            gone = {"believed": _put(scene.believed, n, ""), "dues": _put(scene.dues, n, None)}
            named = (_believed(scene, n, "", removed=True),) if scene.watched else ()
            yield f"the kubelet drops the pod of {object_id}", _later(scene, **gone), named
        if "ending" in rules.troubles and scene.believed[n] and scene.dues[n] is None:
            new = scene._replace(dues=_put(scene.dues, n, scene.now + 1.0))
            named = (_believed(new, n, scene.believed[n]),) if scene.watched else ()
            yield f"the pod of {object_id} is to be removed", _later(new), named


def _believed(
    scene: Scene, n: int, word: str, *, removed: bool = False, asked: bool = False
) -> Believed:
    """What it shows of a pod; where it shows nothing of one, it has dropped it, if it is asked."""
    object_id = f"c{n + 1}"
    pod = Pod("shop", object_id, f"u{n + 1}")
    changed = (BELIEFS[word]._replace(id=object_id),) if word else ()
    removed |= asked and not word
    gone = () if word else (object_id,)
    due = None if removed else scene.dues[n]
    return Believed(scene.now, pod, changed, gone, removed, removed * 1.0, asked, due)


def _times(scene: Scene, rules: Rules) -> Iterator[Step]:
    (short, long), (wait, longer) = scene.waits, rules.pauses
    set_up = {
        object_id
        for object_id, state, has in zip(rules.objects, scene.states, scene.inside, strict=True)
        if state == "created" and has
    }
    scene = scene._replace(slow=scene.slow | set_up)
    if short:
        later = scene._replace(now=scene.now + wait, waits=(short - 1, long))
        yield f"{wait:g} s pass in silence", later, ()
        if scene.up:
            _, after, facts = _other(later, rules)
            yield f"{wait:g} s pass", after, facts
    if long:
        later = scene._replace(now=scene.now + longer, waits=(short, long - 1))
        yield f"{longer:g} s pass in silence", later, ()


def _later(scene: Scene, **changes: Any) -> Scene:
    return scene._replace(now=scene.now + TICK, **changes)


def _put(values: tuple[_T, ...], n: int, value: _T) -> tuple[_T, ...]:
    return (*values[:n], value, *values[n + 1 :])
