"""Ghosts and strays again, from the whole log at once; and cgroups for Hypothesis.

Nothing is shared with the ledger but the vocabulary. Blind spots: pods that the lists do not always
show, and runtime handlers that keep processes elsewhere.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from math import inf
from typing import NamedTuple

from hypothesis import strategies as st

from exporter.pleg.events import Announcement, EventType, ListedState, Relist
from exporter.pleg.facts import CgroupChanged, CgroupsLost, CgroupsRead, Fact, Inquired, learnt
from exporter.pleg.findings import Verdict
from tests.support.facts import READY, wall_ns
from tests.support.lives import END, TrueLife
from tests.support.scenarios import IDS, SANDBOX

LASTS = 2.0
POD_UID = "u1"


class Claim(NamedTuple):
    """A list and the cgroups disagree: how, since when, and whether that list may be counted."""

    verdict: Verdict
    since: float
    counts: bool


def haunted(facts: Sequence[Fact], grace: float) -> Counter[tuple[str, Verdict]]:
    """Every ghost and stray that the ledger owes for this log."""
    return Counter(
        (object_id, verdict) for object_id in IDS for verdict in _verdicts(facts, object_id, grace)
    )


def _verdicts(facts: Sequence[Fact], object_id: str, grace: float) -> Iterator[Verdict]:
    """One for each run of relists that claim the same, two of which count."""
    run: list[Claim] = []
    for n, fact in enumerate(facts):
        if not isinstance(fact, Relist):
            continue
        claim = _claim(facts[:n], fact, object_id, grace)
        if claim is None or (run and run[-1][:2] != claim[:2]):
            run = []
        if claim is not None:
            run.append(claim)
            if claim.counts and sum(each.counts for each in run) == 2:
                yield claim.verdict


def _claim(past: Sequence[Fact], relist: Relist, object_id: str, grace: float) -> Claim | None:
    losses = [n for n, fact in enumerate(past) if isinstance(fact, CgroupsLost)]
    past = past[losses[-1] :] if losses else past
    began, ended = _presence(past, object_id)
    shown = _shown(relist, object_id)
    reads = [fact.requested for fact in past if isinstance(fact, CgroupsRead)]
    fresh = bool(reads) and reads[-1] >= relist.requested
    if began is None:
        return None
    if ended is not None:
        over = ended.at + grace
        lists = (f for f in past[past.index(ended) :] if isinstance(f, Relist))
        gone = (each for each in lists if _shown(each, object_id) in {None, ListedState.EXITED})
        if shown is not ListedState.RUNNING or any(each.requested > over for each in gone):
            return None
        return Claim(Verdict.GHOST, ended.at, fresh and relist.requested > over)
    after = past[past.index(began) :]
    reads_after = (f for f in after if isinstance(f, CgroupsRead))
    if not any(read.requested > began.at + LASTS for read in reads_after):
        return None
    if shown not in {None, ListedState.EXITED}:
        return None
    newest = [relist, *(f for f in reversed(after) if isinstance(f, Relist))]
    in_a_row = takewhile(lambda f: _shown(f, object_id) is ListedState.EXITED, newest)
    since = max([began.at, *(f.requested for f in [*in_a_row][-1:])])
    return Claim(Verdict.STRAY, began.at, fresh and relist.requested > since + grace)


def _presence(
    past: Sequence[Fact], object_id: str
) -> tuple[CgroupChanged | None, CgroupChanged | None]:
    """When its processes were first seen, the last time, and when they had ended."""
    began = ended = None
    for fact in past:
        if isinstance(fact, CgroupChanged) and fact.container_id == object_id:
            if fact.populated and (began is None or ended is not None):
                began, ended = fact, None
            elif not fact.populated and began is not None:
                ended = ended or fact
    return began, ended


def _shown(relist: Relist, object_id: str) -> ListedState | None:
    return next((item.state for item in relist.items if item.id == object_id), None)


def once(log: Sequence[Fact]) -> list[Fact]:
    """The same log, but no list shows again what one has lacked that was asked for after it.

    A list takes back what a list has proven, and processes take back what the kernel has: nothing
    says what is left of an exit that both had proven.
    """
    facts: list[Fact] = []
    known: dict[str, float] = {}
    gone: set[str] = set()
    for fact in log:
        if isinstance(fact, Relist):
            shown = {each.id for each in fact.items}
            asked = (each for each, at in known.items() if at < fact.requested)
            gone |= {each for each in asked if each not in shown}
            known |= dict.fromkeys(shown, -inf)
            items = tuple(each for each in fact.items if each.id not in gone or each.id == SANDBOX)
            fact = replace(fact, items=items)  # noqa: PLW2901
        elif isinstance(fact, Announcement):
            known.setdefault(fact.container_id, fact.received)
        elif isinstance(fact, Inquired) and fact.container_id in gone:
            continue
        facts.append(fact)
    return facts


# --- cgroups ------------------------------------------------------------------


@st.composite
def with_cgroups(draw: st.DrawFn, log: list[Fact]) -> list[Fact]:
    """The same log, of one pod that is always listed, and cgroups that do anything between."""
    facts: list[Fact] = []
    has: set[str] = set()
    listed = {each.id for fact in log if isinstance(fact, Relist) for each in fact.items}
    told = {fact.container_id for fact in log if isinstance(fact, Announcement)}
    ids = (*IDS[:2], *(each for each in IDS[:2] * 2 if each in listed | told))
    for fact in log:
        at = learnt(fact)
        happens = draw(st.sampled_from(("nothing", *("change",) * 3, "loss")))
        if happens == "loss" and draw(st.booleans()):
            facts.append(CgroupsLost(at - 0.5))
            has.clear()
        elif happens == "change":
            object_id, exact = draw(st.sampled_from(ids)), draw(st.booleans())
            has ^= {object_id}
            wall = wall_ns(at - 0.5) * exact
            facts.append(CgroupChanged(object_id, POD_UID, object_id in has, at - 0.5, wall))
        if isinstance(fact, Relist):
            if draw(st.sampled_from((True, True, True, False))):
                facts.append(CgroupsRead(at - 0.125))
            items = (each for each in fact.items if each.id != SANDBOX)
            fact = replace(fact, items=(READY.named(SANDBOX), *items))  # noqa: PLW2901
        facts.append(fact)
    return facts


@st.composite
def sightings(draw: st.DrawFn, truth: list[TrueLife], relists: list[Relist]) -> list[Fact]:
    """What the kernel shows of these lives, and a read of all with each relist.

    A failed start does not last.
    """
    facts: list[Fact] = []
    for each in truth:
        began: float | None = each.steps.get(EventType.STARTED)
        ended: float | None = each.steps.get(EventType.STOPPED)
        if each.failed_at < END:
            began, ended = each.failed_at - 1, each.failed_at
        if began is None:
            continue
        at = began + draw(st.floats(-0.2, 0.2))
        facts.append(CgroupChanged(each.id, POD_UID, populated=True, at=at))
        if ended is not None:
            at = max(at, ended - draw(st.floats(0, 0.2))) + 0.01
            wall = wall_ns(at) * draw(st.booleans())
            facts.append(CgroupChanged(each.id, POD_UID, populated=False, at=at, at_wall_ns=wall))
    reads = (draw(st.sampled_from((each.requested, each.completed))) for each in relists)
    return facts + [CgroupsRead(at) for at in reads]
