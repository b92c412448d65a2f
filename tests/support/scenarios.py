"""Logs of facts for hypothesis: whatever may happen, and garbage.

In the former no two facts share a time, and no deadline falls on one: the rules
say "later than", and the tests of single cases look at equality.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from exporter.model import facts
from exporter.model.events import (
    Announcement,
    EventType,
    Inquiry,
    Listed,
    ListedState,
    ObjectKind,
    Pod,
    Status,
)
from tests.support.facts import READY, Given, Whole, wall_ns, when

SANDBOX = "p1"
FAILING = "c2"
IDS = ("c1", FAILING, SANDBOX)
KEEP = "as it was"
STATES = (None, *ListedState)
SANDBOX_STATES = (None, ListedState.RUNNING, ListedState.EXITED)
REASONS = ("", "Error", "Completed", "OOMKilled")
ENDS = ((137, "OOMKilled"), (137, "Error"), (0, "OOMKilled"), (0, "Completed"), (1, "Error"))
GRACES = (0.375, 2.375, 9.375)


def kind_of(object_id: str) -> ObjectKind:
    """The one sandbox is known by its id."""
    return ObjectKind.SANDBOX if object_id == SANDBOX else ObjectKind.CONTAINER


@cache
def listed(object_id: str, state: ListedState) -> Listed:
    """The list's item, the same each time; every container is in the one sandbox."""
    pod = Pod("shop", "cart", "u1") if object_id == SANDBOX else None
    return Listed(object_id, kind_of(object_id), state, SANDBOX, pod=pod)


# --- whatever may happen ------------------------------------------------------


@dataclass(slots=True)
class Scribe:
    """Writes a log of anything, one fact after the other, in the order of learning.

    `fails`: the start of `FAILING` failed, so that neither witness reports that it ran.
    """

    draw: st.DrawFn
    ids: tuple[str, ...]
    fails: bool
    at: float = 1.0
    last: float = 0.0
    shown: dict[str, ListedState] = field(default_factory=dict)

    def said(self) -> facts.Fact:
        """Any event of any age, copies and repetitions included."""
        object_id = self.draw(st.sampled_from(self.ids))
        what = self.draw(st.sampled_from(EventType))
        if self.fails and object_id == FAILING and what is EventType.STARTED:
            what = EventType.STOPPED
        made = self.draw(st.sampled_from((self.at, self.at, self.at - 1, 0.5, 20)))
        mute = what is EventType.DELETED and self.draw(st.booleans())  # as containerd 1.7 may be
        kind, home = (None, "") if mute else (kind_of(object_id), SANDBOX)
        stream = self.draw(st.sampled_from((0, 0, 0, 1)))
        event = Announcement(object_id, what, self.at, wall_ns(made), kind, home, stream=stream)
        return event._replace(received_wall_ns=wall_ns(self.at))

    def relist(self) -> Whole:
        """Lists where anything may have changed, requested any number of facts ago."""
        for object_id in self.ids:
            state = self.draw(st.sampled_from((*STATES, KEEP, KEEP, KEEP)))
            unheard_of = (object_id == SANDBOX and state not in SANDBOX_STATES) or (
                self.fails and object_id == FAILING and state is ListedState.RUNNING
            )
            if state is None:
                self.shown.pop(object_id, None)
            elif isinstance(state, ListedState):
                self.shown[object_id] = ListedState.EXITED if unheard_of else state
        lead = self.draw(st.sampled_from((0.75, 0.75, 1.75, 5.75)))
        requested = max(self.at - lead, self.last + 0.25)
        items = tuple(listed(object_id, state) for object_id, state in self.shown.items())
        self.last = self.at
        return Whole(requested, self.at, items)

    def answered(self) -> Given:
        """An answer that fits the life; only listed containers are asked about."""
        asked = [object_id for object_id in self.shown if object_id != SANDBOX]
        if not asked:
            return self.relist()
        object_id = self.draw(st.sampled_from(asked))
        failed = self.fails and object_id == FAILING
        ran = Inquiry.NEVER_STARTED if failed else Inquiry.STARTED
        answer = self.draw(st.sampled_from((ran, Inquiry.DELETED_BELOW)))
        return facts.Inquired(self.at, object_id, answer)

    def watched(self) -> facts.Fact:
        """Something befell the watch."""
        age = self.draw(st.sampled_from((0, 3, 30)))
        happened: tuple[facts.Fact, ...] = (
            facts.StreamAsked(self.at - age),
            facts.StreamUp(self.at, self.at - age),
            facts.StreamDown(self.at),
            facts.StreamUnproven(self.at),
            facts.Discarded(self.at),
        )
        return self.draw(st.sampled_from(happened))


@st.composite
def any_logs(draw: st.DrawFn) -> list[Given]:
    """Any facts, in the order in which they were learnt."""
    ids = draw(st.sampled_from((("c1",), (FAILING,), (SANDBOX,), ("c1", SANDBOX), IDS)))
    scribe = Scribe(draw, ids, fails=draw(st.booleans()))
    up, refused = facts.StreamUp(1.0, 1.0), facts.StreamRefused(1.0)
    opening = draw(st.sampled_from((None, up, up, refused)))
    moves = [scribe.said] * 6 + [scribe.relist] * 8 + [scribe.answered, scribe.watched] * 2
    if isinstance(opening, facts.StreamRefused):
        moves = [scribe.relist]
    story: list[Given] = [opening] if opening else []
    for _ in range(draw(st.integers(3, 40))):
        scribe.at += draw(st.sampled_from((1.0, 1.0, 1.0, 4.0, 12.0)))
        story.append(draw(st.sampled_from(moves))())
    return story


@st.composite
def with_cgroups(draw: st.DrawFn, log: list[Given]) -> list[Given]:
    """The same log, of one pod that is always listed, and cgroups that do anything between."""
    story: list[Given] = []
    has: set[str] = set()
    listed = {each.id for fact in log if isinstance(fact, Whole) for each in fact.items}
    named = {fact.container_id for fact in log if isinstance(fact, Announcement)}
    ids = (*IDS[:2], *(each for each in IDS[:2] * 2 if each in listed | named))
    for fact in log:
        at = when(fact)
        happens = draw(st.sampled_from(("nothing", *("change",) * 3, "loss")))
        if happens == "loss" and draw(st.booleans()):
            story.append(facts.CgroupsLost(at - 0.5))
            has.clear()
        elif happens == "change":
            object_id, exact = draw(st.sampled_from(ids)), draw(st.booleans())
            has ^= {object_id}
            wall = wall_ns(at - 0.5) * exact
            story.append(facts.CgroupChanged(object_id, "u1", object_id in has, at - 0.5, wall))
        if isinstance(fact, Whole):
            if draw(st.sampled_from((True, True, True, False))):
                moved = draw(st.sampled_from(((), (), IDS[:1], IDS[:2])))
                story.append(facts.CgroupsRead(at - 0.125, moved=moved))
            items = (each for each in fact.items if each.id != SANDBOX)
            fact = replace(fact, items=(READY.named(SANDBOX), *items))  # noqa: PLW2901
        story.append(fact)
    return story


@st.composite
def with_kills(draw: st.DrawFn, log: list[Given], *, steady: bool = False) -> list[Given]:
    """The same log, with OOM kills of its containers, its pod and the node, and words of any.

    `steady`: they are counted from the beginning to the end.
    """
    story: list[Given] = [facts.KillsCounted(0.0, 0)] if steady else []
    node: int | None = 0 if steady else None
    ways = ("nothing", "nothing", "kill", "kill", "others", "count", "count")
    for fact in log:
        at, happens = when(fact) - 0.4375, draw(st.sampled_from(ways))
        if node is None or (not steady and draw(st.integers(0, 30)) == 0):
            node = 0 if node is None and draw(st.booleans()) else None
            story.append(facts.KillsCounted(at, node))
        elif happens == "kill":
            number = draw(st.sampled_from((1, 1, 2)))
            node += number
            who = draw(st.sampled_from((*IDS[:2], "")))
            story.append(facts.Killed(at, who, "u1", number, number))
        elif happens != "nothing":
            node += happens == "others"
            story.append(facts.KillsCounted(at, node))
        if isinstance(fact, Announcement) and fact.type is EventType.STOPPED:
            code, reason = draw(st.sampled_from(ENDS))
            fact = fact._replace(exit_code=code, reason=reason)  # noqa: PLW2901
        story.append(fact)
    return [*story, facts.KillsCounted(when(story[-1]) + 1, node)]


# --- garbage ------------------------------------------------------------------

LAST = 1000.0
_ids = st.one_of(st.sampled_from(("", "c1", SANDBOX)), st.text(max_size=2))
_times = st.floats(-200, 300)
_walls = st.one_of(st.sampled_from((0, 1)), st.integers(-(2**70), 2**70), _times.map(wall_ns))


def of_type(hint: Any, basic: Mapping[Any, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:  # noqa: ANN401 - a type, and its values
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
    kinds = {*get_args(facts.Fact), Whole} - {facts.Relist, facts.ProfileChosen}
    basic = {str: _ids, float: _times, int: _walls}
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    return st.lists(st.one_of(*(of_type(kind, basic) for kind in ordered)), max_size=30)


@st.composite
def with_beliefs(draw: st.DrawFn, log: list[Given]) -> list[Given]:
    """The same log, and a kubelet that shows two pods in any way, or is not watched."""
    story: list[Given] = []
    shown: dict[str, set[str]] = {"u1": set(), "u2": set()}
    ways = ("nothing", "change", "change", "ask", "ask", "drop", "all", "all", "loss")
    for fact in log:
        at, happens = when(fact) - 0.25, draw(st.sampled_from(ways))
        uid = draw(st.sampled_from(("u1", "u1", "u2")))
        pod, its = Pod("shop", uid, uid), shown[uid]
        if happens == "ask" and draw(st.booleans()):
            # Nothing has changed, or it has the pod no longer.
            removed = draw(st.booleans())
            gone = tuple(sorted(its)) if removed else ()
            story.append(facts.Believed(at, pod, (), gone, removed=removed, asked=True))
            its -= set(gone)
        elif happens in {"ask", "change"}:
            changed = tuple(draw(st.lists(statuses(), max_size=2, unique_by=lambda its: its.id)))
            gone = tuple(each for each in sorted(its) if draw(st.booleans()))
            its |= {each.id for each in changed}
            its -= set(gone)
            asked = happens == "ask"
            story.append(facts.Believed(at, pod, changed, gone, asked=asked))
        elif happens == "drop":
            patience = draw(st.sampled_from((0.0, 2.0)))
            gone = tuple(sorted(its))
            story.append(facts.Believed(at, pod, (), gone, removed=True, patience=patience))
            its.clear()
        elif happens != "nothing":
            restarted = draw(st.sampled_from((False, False, True)))
            all_shown = facts.BeliefsShown(at, restarted=restarted)
            story.append(all_shown if happens == "all" else facts.BeliefsLost(at))
        if isinstance(fact, Announcement) and fact.type is EventType.STOPPED:
            code = draw(st.sampled_from((None, 0, 1)))
            fact = fact._replace(exit_code=code, reason=draw(st.sampled_from(REASONS)))  # noqa: PLW2901
        story.append(fact)
    return story


def statuses() -> st.SearchStrategy[Status]:
    """How a kubelet may show a container."""
    states = st.sampled_from((ListedState.RUNNING, ListedState.EXITED))
    ids, codes = st.sampled_from(IDS[:2]), st.sampled_from((0, 1))
    return st.builds(Status, ids, states, st.just(""), codes, st.sampled_from(REASONS))
