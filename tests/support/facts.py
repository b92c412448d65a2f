"""Short words for facts, so that a test reads as a story.

There is one builder for each fact, and `Play` hands facts to a ledger. Times are seconds of one
clock; at its zero the wall clock is at `EPOCH_NS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, partial
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from exporter.model.events import (
    Announcement,
    EventType,
    Lifecycle,
    Listed,
    ListedState,
    ObjectKind,
    Pod,
)
from exporter.model.facts import (
    CgroupChanged,
    CgroupsRead,
    Fact,
    Killed,
    KillsCounted,
    ProfileChosen,
    Relist,
    StreamDown,
    StreamRefused,
    StreamUp,
    learnt,
)
from exporter.model.findings import Finding, Verdict, Why
from exporter.model.labels import Limit, Never, StreamKind
from exporter.pleg.ledger import Ledger
from exporter.pleg.relist import Lists
from exporter.runtimes.known import profile_of
from exporter.runtimes.runtime import Profile

EPOCH_NS = 1_700_000_000_000_000_000
GRACE = 5.0


def wall_ns(at: float) -> int:
    return EPOCH_NS + int(at * 1_000_000_000)


# How late an exit was noticed says nothing about who noticed it.
MEASURED = {
    *(Verdict.EXIT_ANNOUNCED, Verdict.EXIT_LISTED, Verdict.SLOW),
    *(Verdict.EXIT_BELIEVED, Verdict.EVENT_BELIEVED),
}
Outcome = tuple[str, Lifecycle, Verdict, Why | None, bool]
ELSEWHERE = "elsewhere"


# --- builders -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shown:
    """How a list shows one object; `RUNNING.inside("p1")` names its sandbox."""

    state: ListedState
    kind: ObjectKind = ObjectKind.CONTAINER
    sandbox_id: str = ""
    elsewhere: bool = False

    def inside(self, sandbox_id: str) -> Shown:
        return replace(self, sandbox_id=sandbox_id)

    def named(self, object_id: str) -> Listed:
        """The list's item for that id: the same one each time, as a decoder gives it."""
        own = object_id if self.kind is ObjectKind.SANDBOX else self.sandbox_id
        is_sandbox = self.kind is ObjectKind.SANDBOX
        pod = Pod("shop", object_id, f"u{object_id[1:]}") if is_sandbox else None
        return _item(object_id, self.kind, self.state, own, "", pod, self.elsewhere)


_item = cache(Listed)


CREATED = Shown(ListedState.CREATED)
RUNNING = Shown(ListedState.RUNNING)
EXITED = Shown(ListedState.EXITED)
UNKNOWN = Shown(ListedState.UNKNOWN)
READY = Shown(ListedState.RUNNING, ObjectKind.SANDBOX)
NOTREADY = Shown(ListedState.EXITED, ObjectKind.SANDBOX)


@dataclass(frozen=True, slots=True)
class Whole:
    """What both lists of a relist show; `Differences` turns it into the fact."""

    requested: float
    completed: float
    items: tuple[Listed, ...]


Given = Fact | Whole


class Differences:
    """Turns what lists show, one after the other, into facts."""

    def __init__(self) -> None:
        self._lists = Lists()

    def fact(self, line: Given) -> Fact:
        if not isinstance(line, Whole):
            return line
        changed, gone = self._lists.difference(line.items)
        return Relist(line.requested, line.completed, len(self._lists.items), changed, gone)


def facts_of(log: Iterable[Given]) -> list[Fact]:
    differences = Differences()
    return [differences.fact(line) for line in log]


def when(line: Given) -> float:
    return line.completed if isinstance(line, Whole) else learnt(line)


def relist(at: float, /, **shown: Shown) -> Whole:
    items = tuple(how.named(object_id) for object_id, how in shown.items())
    return Whole(requested=at, completed=at, items=items)


def relists(*times: float, **shown: Shown) -> list[Whole]:
    return [relist(at, **shown) for at in times]


def taking(seconds: float, answer: Whole) -> Whole:
    """The same relist, complete only later."""
    return replace(answer, completed=answer.requested + seconds)


def said(
    what: EventType, object_id: str, at: float, made: float | None = None, stream: int = 0
) -> Announcement:
    """An event received at `at`, made by the runtime at `made` (the same time if not given)."""
    return Announcement(
        container_id=object_id,
        type=what,
        received=at,
        created_at_ns=wall_ns(at if made is None else made),
        kind=ObjectKind.CONTAINER,
        stream=stream,
        received_wall_ns=wall_ns(at),
    )


created = partial(said, EventType.CREATED)
started = partial(said, EventType.STARTED)
stopped = partial(said, EventType.STOPPED)
deleted = partial(said, EventType.DELETED)


def of_sandbox(event: Announcement) -> Announcement:
    return event._replace(kind=ObjectKind.SANDBOX, sandbox_id=event.container_id)


def up(at: float = 0.0) -> StreamUp:
    """The subscription is up since `at`; what was made before is backlog."""
    return StreamUp(at, at)


def populated(container_id: str, at: float, pod_uid: str = "u1") -> CgroupChanged:
    return CgroupChanged(container_id, pod_uid, populated=True, at=at)


def emptied(container_id: str, at: float, *, exact: bool = True) -> CgroupChanged:
    """None was left at `at`; `exact`: the kernel notified."""
    return CgroupChanged(container_id, "u1", populated=False, at=at, at_wall_ns=exact * wall_ns(at))


def looked(at: float, /, **shown: Shown) -> tuple[CgroupsRead, Whole]:
    """A relist at `at` that shows just these, and the read of all cgroups that comes with it."""
    return CgroupsRead(at), relist(at, **shown)


def counted(at: float, number: int | None = 0) -> KillsCounted:
    """The node's count of OOM kills is so high now."""
    return KillsCounted(at, number)


def killed(
    at: float, container: str = "c1", number: int = 1, pod: str = "u1", limit: str = "CONTAINER"
) -> Killed:
    """So many processes of it were."""
    return Killed(at, container, pod, number, number, Limit[limit])


def ends(at: float, code: int = 137, reason: str = "OOMKilled", name: str = "c1") -> Fact:
    """Its STOPPED, and how it says that it ended."""
    return stopped(name, at)._replace(exit_code=code, reason=reason)


def began(name: str = "c1") -> list[Given]:
    """A container that begins after all OOM kills that are counted."""
    return [
        *(up(), counted(1), relist(1, p1=READY)),
        *(created(name, 2), started(name, 2.1), populated(name, 2.1)),
        relist(10, p1=READY, **{name: RUNNING.inside("p1")}),
    ]


def profile(*never: Never) -> Profile:
    """A runtime that never announces just these."""
    return Profile(
        name="made-up", stream=StreamKind.BROADCAST, never=frozenset(never), why="a test"
    )


CONTAINERD_2 = profile_of("containerd", "2.1.9")
CRIO = profile_of("cri-o", "1.36.3")
EVENTFUL = profile()


# --- playing ------------------------------------------------------------------


def outcomes(findings: Iterable[Finding]) -> Counter[Outcome]:
    """Verdicts as a multiset, without delays and what only serves a log line."""
    judged = (f for f in findings if f.verdict not in MEASURED)
    return Counter((f.container_id, f.event, f.verdict, f.cause, f.before) for f in judged)


def lines(findings: Iterable[Finding]) -> list[str]:
    """Findings as a reader would put them: `c1 ContainerDied missed silent`."""
    return [
        " ".join(
            (f.container_id, f.event.label, f.verdict.value, *([f.cause.value] if f.cause else []))
        )
        for f in findings
    ]


def beat(at: float) -> Announcement:
    """An event of a container that no story is about: the stream has come this far."""
    return deleted(ELSEWHERE, at)


def lively(facts: Iterable[Given]) -> Iterator[Given]:
    """The same facts on a node where much else happens."""
    for fact in facts:
        if isinstance(fact, Whole):
            yield created(ELSEWHERE, fact.requested)
            yield beat(fact.requested)
        yield fact
        if isinstance(fact, StreamUp):
            yield created(ELSEWHERE, fact.at + 0.001)
            yield beat(fact.at + 0.001)


class Play:
    """Hands facts to a ledger in the order in which they were learnt.

    While the subscription is up, an event comes right before each relist, as on a node where much
    else happens: so it is known how far the stream has come. Not so on a `quiet` node.
    """

    def __init__(
        self,
        *facts: Given,
        profile: Profile = CONTAINERD_2,
        grace: float = GRACE,
        quiet: bool = False,
    ) -> None:
        self.ledger = Ledger(profile, grace)
        self._up, self._quiet = False, quiet
        self._differences = Differences()
        self.findings: list[Finding] = []
        self.then(*facts)

    def then(self, *facts: Given) -> list[Finding]:
        """Hand over more facts; answers what these alone brought."""
        ordered = sorted(facts, key=when)
        log = (self._differences.fact(each) for line in ordered for each in self._amid_others(line))
        taken = [self.ledger.judge(fact) for fact in log]
        new = [f for each in taken for f in each.findings if f.container_id != ELSEWHERE]
        self.findings += new
        return new

    def _amid_others(self, fact: Given) -> Iterable[Given]:
        if isinstance(fact, StreamUp | StreamDown | StreamRefused):
            self._up = isinstance(fact, StreamUp)
        return lively((fact,)) if self._up and not self._quiet else (fact,)

    @property
    def judged(self) -> list[str]:
        """One line for each verdict so far: without the relist's own count, and without delays."""
        counted = {Verdict.WITNESSED, *MEASURED}
        return lines(f for f in self.findings if f.verdict not in counted)

    @property
    def delays(self) -> list[str]:
        """One line for each delay of an exit so far: `c1 exit_listed 2.5`."""
        some = (f for f in self.findings if f.verdict in MEASURED)
        return [f"{f.container_id} {f.verdict.value} {f.seconds:g}" for f in some]

    @property
    def witnessed(self) -> list[str]:
        return lines(f for f in self.findings if f.verdict is Verdict.WITNESSED)


def found(verdict: Verdict, cause: Why | None = None) -> Finding:
    return Finding(verdict, Lifecycle.DIED, ObjectKind.CONTAINER, "c1", cause=cause)


# --- garbage ------------------------------------------------------------------

LAST = 1000.0
_ids = st.one_of(st.sampled_from(("", "c1", "p1")), st.text(max_size=2))
_times = st.floats(-200, 300)
_walls = st.one_of(st.sampled_from((0, 1)), st.integers(-(2**70), 2**70), _times.map(wall_ns))


def of_type(hint: Any, basic: Mapping[Any, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Any value of that type; texts and numbers in it are `basic`."""
    if hint in basic:
        return basic[hint]
    if hint in (bool, None, NoneType):
        return st.booleans() if hint is bool else st.none()
    parts = get_args(hint)
    if get_origin(hint) is tuple:
        return st.lists(of_type(parts[0], basic), max_size=4).map(tuple)
    if parts:
        return st.one_of(*(of_type(part, basic) for part in parts))
    if issubclass(hint, Enum):
        return st.sampled_from(hint)
    fields = get_type_hints(hint)
    return st.builds(hint, **{name: of_type(each, basic) for name, each in fields.items()})


def garbage() -> st.SearchStrategy[list[Given]]:
    """Facts of the right types and nothing else right about them."""
    kinds = {*get_args(Fact), Whole} - {Relist, ProfileChosen}
    basic = {str: _ids, float: _times, int: _walls}
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    return st.lists(st.one_of(*(of_type(kind, basic) for kind in ordered)), max_size=30)
