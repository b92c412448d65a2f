"""The judges: a history in, breaches out. What each of them judges is in properties.yaml.

They look at the parts of a run that they are given. A recording does not say what was done: what
was owed is there what the ledger proves. Blind spot: what was neither made by an act nor heard of.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from statistics import median, mode
from typing import Any, Final, NamedTuple

from conformance.history import LATER, MAIN, Heard, History, Life, Looked
from exporter.model.events import ANNOUNCED_BY, EventType, ObjectKind
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.flaws import MEANINGS
from exporter.model.labels import Flaw, Never

CREATED, STARTED, STOPPED, DELETED = EventType
_SECOND: Final = 1_000_000_000
# The part that such a finding of a recording breaches; "": none, or the cause is not certain.
_OF_RULE: Final[dict[Never | None, str]] = {
    Never.DELETED_BELOW: "",
    Never.FAILED_START: "failed-start",
    Never.REMOVED_WITH_SANDBOX: "pod-removal",
    Never.FORCED_REMOVAL: "pod-removal",
}
_OF_CAUSE: Final = {
    Cause.STREAM_DOWN: "restart",
    Cause.DISCARDED: "restart",
    Cause.STALLED: "",
    Cause.SHARED: "",
}
# Seconds without a call that returned: more than any call takes on a busy machine.
BLOCKED: Final = 5.0
_MOST_PAUSE: Final = BLOCKED - 0.1
_LATE, _VERY_LATE = 4.0, 10.0
# Parts whose sandboxes may live while there is no subscriber, or another one.
_NOT_ALONE: Final = frozenset(
    ("probe", "shared", "frozen", "leavers", "unsubscribed", "restart", "failed-network")
)
# Files that a runtime may have opened meanwhile for itself.
SPARE: Final = 20
# Seconds that the part `grace` gives.
GRACE: Final = 1


class Breach(NamedTuple):
    """What is wrong, in words, and the history that shows it."""

    what: str
    story: tuple[str, ...] = ()


@dataclass(slots=True)
class Judged:
    """Breaches among so many `cases`. `note`: what was observed. `skipped`: why nothing was."""

    cases: int = 0
    breaches: list[Breach] = field(default_factory=list)
    note: str = ""
    skipped: str = ""

    def __add__(self, other: "Judged") -> "Judged":
        return Judged(self.cases + other.cases, self.breaches + other.breaches)

    @property
    def shortest(self) -> Breach:
        """The breach with the shortest history that there is."""
        return min(self.breaches, key=lambda breach: len(breach.story) or 1000)


Parts = tuple[str, ...]
Judge = Callable[[History, Parts], Judged]


def _walk(
    history: History, items: Iterable[Any], wrong: Callable[[Any], str], stream: str = MAIN
) -> Judged:
    """Judge lives, events or findings: `wrong` says what is wrong with one, or nothing."""
    judged = Judged()
    for each in items:
        judged.cases += 1
        if what := wrong(each):
            key = each.container_id if isinstance(each, Finding) else each.id
            what = f"{each.fact.type.name} {what}" if isinstance(each, Heard) else what
            judged.breaches.append(Breach(what, history.story(key, stream=stream)))
    return judged


def _late(heard: Heard, since_ns: int, most: float) -> str:
    took = (heard.fact.received_wall_ns - since_ns) / _SECOND
    return f"comes {took:.1f} s late" if took > most else ""


def _of_lives(wrong: Callable[[Life], str]) -> Judge:
    """A judge of the lives of these parts, or of all that was heard of."""

    def judge(history: History, parts: Parts) -> Judged:
        lives = history.of(parts) if parts else history.lives().values()
        return _walk(history, (life for life in lives if parts or life.heard), wrong)

    return judge


@_of_lives
def twice(life: Life) -> str:
    (kind, number), *_ = Counter(life.kinds).most_common(1)
    # What comes of these twice is judged for them.
    is_twice = number > 1 and life.case.part not in ("exec", "update")
    return f"{kind.name} is heard {number} times" if is_twice else ""


@_of_lives
def disorder(life: Life) -> str:
    first = dict.fromkeys(kind for kind in life.kinds if kind is not DELETED)
    bad = (f"{one.name} comes before {two.name}" for one, two in pairwise(first) if two < one)
    return next(bad, "")


@_of_lives
def after_the_end(life: Life) -> str:
    kinds = life.kinds
    after = kinds[kinds.index(DELETED) :] if DELETED in kinds else []
    return next((f"{kind.name} comes after DELETED" for kind in after if kind is not DELETED), "")


def _lost(life: Life) -> str:
    return f"{life.missing[0].name} is never heard" if life.missing else ""


@_of_lives
def false(life: Life) -> str:
    """What was not made has no owed CREATED, and may come if it goes again."""
    if CREATED in life.case.owed:
        return "STARTED is heard, and it was never started" if STARTED in life.kinds else ""
    alive = life.kinds and life.kinds[-1] < STOPPED
    return f"{life.kinds[-1].name} is the last that is heard of what was not made" if alive else ""


@_of_lives
def exit_code(life: Life) -> str:
    got = life.end.fact.exit_code if life.end else life.case.exit_code
    owed = life.case.exit_code
    return f"STOPPED has the exit code {got}, not {owed}" if got != owed else ""


@_of_lives
def reason(life: Life) -> str:
    owed = life.case.reason
    got = life.end.fact.reason if life.end else owed
    return f"STOPPED has the reason {got!r}, not {owed}" if got != owed else ""


@_of_lives
def early(life: Life) -> str:
    act = life.acts["StopContainer"]
    is_early = life.end and life.end.at < act.at - act.took + GRACE
    return "STOPPED is heard before its grace is over" if is_early else ""


@_of_lives
def noisy(life: Life) -> str:
    act = life.acts["StopContainer"]
    before = Counter(h.fact.type for h in life.heard if h.at < act.at - act.took)
    more = [*(before - Counter((CREATED, STARTED)))]
    return f"{more[0].name} is heard, and nothing became of it" if more else ""


def _flawed(flaw: Flaw, history: History, _: Parts) -> Judged:
    def wrong(heard: Heard) -> str:
        return MEANINGS[flaw].what if heard.fact.flawed and flaw in heard.fact.flawed.flaws else ""

    return _walk(history, history.heard(), wrong)


def others(history: History, _: Parts) -> Judged:
    known: dict[str, EventType] = {}
    judged = Judged()
    for heard in history.heard():
        told = {told.id: told.state for told in heard.statuses or () if told.id in known}
        judged.cases += bool(told)
        for key, state in told.items():
            # An event that was made before may still tell of one that is gone.
            if state < known[key] < DELETED and key != heard.id:
                what = f"{heard.fact.type.name} shows another one older than {known[key].name}"
                judged.breaches.append(Breach(what, history.story(heard.id, key)))
        known[heard.id] = heard.fact.type
    return judged


def stamps(history: History, _: Parts) -> Judged:
    latest = 0

    def wrong(heard: Heard) -> str:
        nonlocal latest
        before, made, ended = latest, heard.fact.created_at_ns, heard.fact.ended_ns
        latest = max(latest, made)
        if made > heard.fact.received_wall_ns + _SECOND:
            return "was made in the future"
        if made < before:
            return f"was made {(before - made) / _SECOND:.6f} s before the last"
        if heard.fact.flawed or not (heard.own and ended):
            return ""
        if (early := heard.own.started_at - ended) > 0:
            return f"says that it finished {early / _SECOND:.3f} s before it started"
        return "is of an exit that comes later" if made < ended else ""

    return _walk(history, history.heard(), wrong)


def exit_delay(history: History, _: Parts) -> Judged:
    times, ends = [], []
    for heard in history.heard():
        idle = history.findings is not None or history.case(heard).part == "plain"
        if idle and heard.fact.ended_ns and not heard.fact.flawed:
            ends.append(heard)
            times.append((heard.fact.received_wall_ns - heard.fact.ended_ns) / _SECOND)
    judged = _walk(history, ends, lambda heard: _late(heard, heard.fact.ended_ns, _VERY_LATE))
    if times:
        judged.note = f"half within {median(times):.3f} s, all within {max(times):.3f} s"
    return judged


def sandboxes(history: History, _: Parts) -> Judged:
    def is_whole(life: Life) -> bool:
        if history.findings is not None:
            return life.heard[0].fact.kind is ObjectKind.SANDBOX and history.is_whole(life.id)
        return life.id == life.case.pod and life.case.part not in _NOT_ALONE

    def announced(life: Life) -> str:
        return " ".join(kind.name for kind in sorted({*life.kinds}))

    lives = [life for life in history.lives().values() if life.heard and is_whole(life)]
    usual = mode(map(announced, lives)) if lives else ""
    judged = _walk(
        history,
        lives,
        lambda its: f"{told}, not {usual}" if (told := announced(its)) != usual else "",
    )
    judged.note = usual
    return judged


def lost(history: History, parts: Parts, stream: str = MAIN) -> Judged:
    if history.findings is None:
        return _walk(history, history.of(parts, stream), _lost, stream)
    late = {(f.container_id, f.event) for f in history.findings if f.verdict is Verdict.LATE}

    def wrong(found: Finding) -> str:
        if found.verdict is Verdict.CONFIRMED or (found.container_id, found.event) in late:
            return ""
        return f"{ANNOUNCED_BY[found.event].name} of a {found.kind.value} is never heard"

    judged = (Verdict.MISSED, Verdict.GAP, Verdict.CONFIRMED)
    found = (f for f in history.findings if f.verdict in judged and _part(f) in parts)
    return _walk(history, found, wrong)


def _part(found: Finding) -> str:
    if isinstance(found.cause, Cause) and found.cause in _OF_CAUSE:
        return _OF_CAUSE[found.cause]
    return _OF_RULE.get(found.rule, "plain") if found.kind is ObjectKind.CONTAINER else ""


def later(history: History, _: Parts) -> Judged:
    return Judged() if history.findings is not None else lost(history, ("restart-later",))


def follows(history: History, _: Parts) -> Judged:
    looks = (row for row in history.rows if isinstance(row, Looked))
    return _walk(history, looks, lambda look: str(look) if look.state < look.type else "")


def shared(history: History, parts: Parts) -> Judged:
    judged, ours = Judged(), {life.id for life in history.of(parts)}
    names = dict.fromkeys(row.stream for row in history.connected("shared"))
    names.pop(LATER, None)
    heard = {
        name: [(h.id, h.fact.type) for h in history.heard(name) if h.id in ours] for name in names
    }
    most = max(heard.values(), key=len, default=[])
    for name, events in heard.items():
        judged += lost(history, parts, name)
        both = set(events) & set(most)
        pairs = zip(*([e for e in each if e in both] for each in (most, events)), strict=False)
        for key, kind in [two for one, two in pairs if one != two][:1]:
            what = f"{name} hears {kind.name} elsewhere than another one"
            judged.breaches.append(Breach(what, history.story(key, stream=name)))
    return judged


def blocking(history: History, parts: Parts) -> Judged:
    heard = (heard for heard in history.heard() if history.case(heard).part in parts)
    late = _walk(history, heard, lambda each: _late(each, each.fact.created_at_ns, _LATE))
    return _figure("frozen", history, parts) + late


def told(history: History, parts: Parts) -> Judged:
    is_told = any(row.why for row in history.connected("frozen"))
    return Judged(1) if is_told else lost(history, parts, "frozen")


def again(history: History, _: Parts) -> Judged:
    heard = [*history.heard(LATER)]
    number = Counter((h.id, h.fact.type, h.fact.created_at_ns) for h in heard)
    twice = (h for h in heard if number[h.id, h.fact.type, h.fact.created_at_ns] > 1)
    judged = _walk(history, twice, lambda _: "is heard twice", LATER)
    judged.cases = sum(row.up for row in history.connected(LATER))
    before = sum(bool(_late(each, each.fact.created_at_ns, 1)) for each in heard)
    judged.note = f"{before} events from before it came"
    return judged


def ends(history: History, _: Parts) -> Judged:
    seen = [each for each in history.connected(MAIN) if each.why]
    return Judged(len(seen), [Breach(str(each)) for each in seen if each.why == "eof"])


FIGURES: Final = {
    "pod_status": (0, "PodSandboxStatus has a timestamp, and no statuses"),
    "streamed": (0, "of {:g} containers the two lists show different things"),
    "refused": (0, "the stream ends cleanly at once"),
    "frozen": (_MOST_PAUSE, "no call returned for {:.1f} s"),
    "unsubscribed": (_MOST_PAUSE, "no call returned for {:.1f} s"),
    "files": (SPARE, "{:g} more files are open"),
}


def _figure(name: str, history: History, _: Parts) -> Judged:
    """What was measured is no more than that; with the calls that were blocked."""
    most, what = FIGURES[name]
    if (value := history.figures.get(name)) is None:
        return Judged()
    held = [act.id for act in history.acts() if act.took > BLOCKED and most == _MOST_PAUSE]
    return Judged(1, [Breach(what.format(value), history.story(*held))] if value > most else [])


def judge_of(name: str) -> Judge:
    """The judge of that name: of a flaw or a figure, or a public name of this module."""
    if name in FIGURES:
        return partial(_figure, name)
    flaws = {flaw.value: flaw for flaw in MEANINGS}
    found: Judge = partial(_flawed, flaws[name]) if name in flaws else globals()[name]
    return found
