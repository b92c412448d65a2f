"""Lives as runtimes lead them, honest lists of them, and announcements late, twice or never."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import strategies as st

from exporter.model.events import Announcement, EventType, Inquiry, ListedState
from exporter.model.facts import (
    CgroupChanged,
    CgroupsLost,
    CgroupsRead,
    Discarded,
    Inquired,
    Relist,
    StreamDown,
    StreamUp,
)
from tests.support.facts import READY, Told, Whole, wall_ns, when
from tests.support.scenarios import IDS, SANDBOX, kind_of, listed

BEGIN = 10
END = 60
STATES = {
    EventType.CREATED: ListedState.CREATED,
    EventType.STARTED: ListedState.RUNNING,
    EventType.STOPPED: ListedState.EXITED,
}
RAN = (EventType.CREATED, EventType.STARTED, EventType.STOPPED, EventType.DELETED)
NEVER_STARTED = (EventType.CREATED, EventType.DELETED)


@dataclass(frozen=True, slots=True)
class TrueLife:
    """When each step of it really happened. A failed start is listed EXITED, but no step."""

    id: str
    steps: dict[EventType, int]
    failed_at: float

    def state(self, at: float) -> ListedState | None:
        """The state that an honest list shows of that moment."""
        past = [step for step, when in self.steps.items() if when <= at]
        if not past or EventType.DELETED in past:
            return None
        return ListedState.EXITED if self.failed_at <= at else STATES[past[-1]]


@st.composite
def life(draw: st.DrawFn, object_id: str, *, may_fail: bool) -> TrueLife:
    """One life, whole or not yet over; sandboxes are made running."""
    course = draw(st.sampled_from((RAN, RAN, RAN, NEVER_STARTED))) if object_id != SANDBOX else RAN
    waits = [draw(st.integers(0, 9)) for _ in course]
    if object_id == SANDBOX:
        waits[1] = 0
    at, steps = BEGIN + draw(st.integers(1, 20)), {}
    taken = draw(st.integers(2 if object_id == SANDBOX else 1, len(course)))
    for step, wait in list(zip(course, waits, strict=True))[:taken]:
        at += wait
        steps[step] = at
    fails = may_fail and course is NEVER_STARTED and draw(st.booleans())
    return TrueLife(object_id, steps, steps[EventType.CREATED] + waits[0] if fails else END * 9)


@st.composite
def lives(draw: st.DrawFn, *, may_fail: bool = True) -> list[TrueLife]:
    """Two containers and their sandbox."""
    return [draw(life(object_id, may_fail=may_fail)) for object_id in ("c1", "c2", SANDBOX)]


@st.composite
def honest_relists(draw: st.DrawFn, truth: list[TrueLife]) -> list[Whole]:
    """A baseline before all lives, relists any time, and three long after the last.

    Each list shows the truth of a moment between its request and its completion,
    sandboxes and containers of different moments.
    """
    marks = draw(st.lists(st.integers(BEGIN, END), min_size=2, max_size=24, unique=True))
    ends = (f + g for f in (END + 30, END + 60, END + 90) for g in (0.0, 1.0))
    times = [1.0, 2.0, *(mark + 0.5 for mark in sorted(marks)[: len(marks) // 2 * 2]), *ends]
    relists = []
    for requested, completed in zip(times[::2], times[1::2], strict=True):
        moments = [draw(st.sampled_from((requested, completed))) for _ in range(2)]
        shown = ((a, a.state(moments[a.id == SANDBOX])) for a in truth)
        items = tuple(listed(a.id, state) for a, state in shown if state)
        relists.append(Whole(requested, completed, wall_ns(requested), items))
    return relists


Lost = set[tuple[str, EventType]]


@st.composite
def losses(draw: st.DrawFn, truth: list[TrueLife]) -> Lost:
    """Steps that are never announced."""
    steps = [(a.id, step) for a in truth for step in a.steps]
    return draw(st.sets(st.sampled_from(steps), max_size=4))


@st.composite
def announcements(
    draw: st.DrawFn, truth: list[TrueLife], lost: Lost, slowest: float
) -> list[Announcement]:
    """One announcement of every other step, or two, each up to `slowest` late."""
    told = []
    steps = ((a.id, step, at) for a in truth for step, at in a.steps.items())
    for object_id, step, made in steps:
        copies = () if (object_id, step) in lost else draw(st.sampled_from(((0,), (0, 1), (0, 0))))
        for stream in copies:
            received = made + draw(st.floats(0.01, slowest))
            kind = None if step is EventType.DELETED else kind_of(object_id)
            home = SANDBOX if kind else ""
            told.append(
                Announcement(object_id, step, received, wall_ns(made), kind, home, stream=stream)
            )
    return told


@st.composite
def answers(draw: st.DrawFn, truth: list[TrueLife], relists: list[Whole]) -> list[Inquired]:
    """`ContainerStatus` is asked of what a relist shows EXITED first, and may answer."""
    told = []
    for before, after in pairwise(relists):
        shown = [{item.id: item.state for item in relist.items} for relist in (before, after)]
        for a in truth:
            old, new = (states.get(a.id) for states in shown)
            if old is not new is ListedState.EXITED and a.id != SANDBOX and draw(st.booleans()):
                ran = EventType.STARTED in a.steps
                answer = Inquiry.STARTED if ran else Inquiry.NEVER_STARTED
                told.append(Inquired(after.completed + 0.001, a.id, answer))
    return told


@st.composite
def outages(draw: st.DrawFn) -> list[Told]:
    """The subscription falls and rises; this process drops events."""
    marks = draw(st.lists(st.integers(BEGIN, END), max_size=4, unique=True))
    facts: list[Told] = []
    for n, mark in enumerate(sorted(marks)):
        at = mark + 0.25
        facts.append(StreamUp(at, wall_ns(at)) if n % 2 else StreamDown(at))
    drops = draw(st.lists(st.integers(BEGIN, END), max_size=2))
    return facts + [Discarded(at + 0.125) for at in drops]


def in_order(facts: list[Told]) -> list[Told]:
    """As they were learnt, and no two at the same time."""
    return list(_apart(sorted(facts, key=when)))


def _apart(facts: list[Told]) -> Iterator[Told]:
    for n, fact in enumerate(facts):
        nudge = n / 2**20
        if isinstance(fact, Announcement):
            yield fact._replace(received=fact.received + nudge)
        elif isinstance(fact, Whole | Relist):
            yield replace(fact, completed=fact.completed + nudge)
        elif isinstance(fact, CgroupsRead):
            yield replace(fact, requested=fact.requested + nudge)
        else:
            yield replace(fact, at=fact.at + nudge)


# --- cgroups ------------------------------------------------------------------


@st.composite
def with_cgroups(draw: st.DrawFn, log: list[Told]) -> list[Told]:
    """The same log, of one pod that is always listed, and cgroups that do anything between."""
    facts: list[Told] = []
    has: set[str] = set()
    listed = {each.id for fact in log if isinstance(fact, Whole) for each in fact.items}
    told = {fact.container_id for fact in log if isinstance(fact, Announcement)}
    ids = (*IDS[:2], *(each for each in IDS[:2] * 2 if each in listed | told))
    for fact in log:
        at = when(fact)
        happens = draw(st.sampled_from(("nothing", *("change",) * 3, "loss")))
        if happens == "loss" and draw(st.booleans()):
            facts.append(CgroupsLost(at - 0.5))
            has.clear()
        elif happens == "change":
            object_id, exact = draw(st.sampled_from(ids)), draw(st.booleans())
            has ^= {object_id}
            wall = wall_ns(at - 0.5) * exact
            facts.append(CgroupChanged(object_id, "u1", object_id in has, at - 0.5, wall))
        if isinstance(fact, Whole):
            if draw(st.sampled_from((True, True, True, False))):
                facts.append(CgroupsRead(at - 0.125))
            items = (each for each in fact.items if each.id != SANDBOX)
            fact = replace(fact, items=(READY.named(SANDBOX), *items))  # noqa: PLW2901
        facts.append(fact)
    return facts


@st.composite
def sightings(draw: st.DrawFn, truth: list[TrueLife], relists: list[Whole]) -> list[Told]:
    """What the kernel shows of these lives, and a read of all with each relist.

    A failed start does not last.
    """
    facts: list[Told] = []
    for each in truth:
        began: float | None = each.steps.get(EventType.STARTED)
        ended: float | None = each.steps.get(EventType.STOPPED)
        if each.failed_at < END:
            began, ended = each.failed_at - 1, each.failed_at
        if began is None:
            continue
        at = began + draw(st.floats(-0.2, 0.2))
        facts.append(CgroupChanged(each.id, "u1", populated=True, at=at))
        if ended is not None:
            at = max(at, ended - draw(st.floats(0, 0.2))) + 0.01
            wall = wall_ns(at) * draw(st.booleans())
            facts.append(CgroupChanged(each.id, "u1", populated=False, at=at, at_wall_ns=wall))
    reads = (draw(st.sampled_from((each.requested, each.completed))) for each in relists)
    return facts + [CgroupsRead(at) for at in reads]
