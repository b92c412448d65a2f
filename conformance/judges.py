"""The judges: a history in, breaches out. What each of them judges is in properties.yaml.

They look at the parts of a run that they are given. A recording does not say what was done: what
was owed is there what the ledger proves. Blind spot: what was neither made by an act nor heard of.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

from conformance.history import LATER, MAIN, Heard, History, Looked
from exporter.model.events import ANNOUNCED_BY, EventType, ListedState, ObjectKind
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.flaws import MEANINGS
from exporter.model.labels import Flaw, Never

CREATED, STARTED, STOPPED, DELETED = EventType
_RANK: Final = {ListedState.CREATED: 0, ListedState.RUNNING: 1, None: 3}
_SECOND: Final = 1_000_000_000
_OF_RULE: Final[dict[Never | None, str]] = {
    # Behind the CRI's back: nobody owes it.
    Never.DELETED_BELOW: "",
    Never.FAILED_START: "failed-start",
    Never.REMOVED_WITH_SANDBOX: "pod-removal",
    Never.FORCED_REMOVAL: "pod-removal",
}
_OUTAGE: Final = (Cause.STREAM_DOWN, Cause.DISCARDED)
# Another subscriber, or the subscriber itself, may be why.
_NO_PROOF: Final = (Cause.STALLED, Cause.SHARED)
# Seconds without a call that returned: more than any call takes on a busy machine.
BLOCKED: Final = 5.0
_STOOD: Final = BLOCKED - 0.1
_LATE, _VERY_LATE = 4.0, 10.0
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

    @property
    def shortest(self) -> Breach:
        """The breach with the shortest history that there is."""
        return min(self.breaches, key=lambda breach: len(breach.story) or 1000)


Parts = tuple[str, ...]
Judge = Callable[[History, Parts], Judged]


def _each(
    history: History, ids: Iterable[str], wrong: Callable[[str], str], stream: str = MAIN
) -> Judged:
    """Judge these containers one by one: `wrong` says what is wrong with one, or nothing."""
    judged = Judged()
    for key in ids:
        judged.cases += 1
        if what := wrong(key):
            judged.breaches.append(Breach(what, history.story(key, streams=[stream])))
    return judged


def _events(history: History, heard: Iterable[Heard], wrong: Callable[[Heard], str]) -> Judged:
    """Judge events one by one."""
    judged = Judged()
    for each in heard:
        judged.cases += 1
        if what := wrong(each):
            judged.breaches.append(Breach(f"{each.fact.type.name} {what}", history.story(each.id)))
    return judged


def _in(history: History, parts: Parts) -> list[str]:
    return [key for part in parts for key in history.of(part)]


def _twice(kinds: list[EventType]) -> str:
    (kind, number), *_ = Counter(kinds).most_common(1)
    return f"{kind.name} is heard {number} times" if number > 1 else ""


def once(history: History, parts: Parts) -> Judged:
    # What comes of these twice is judged for them.
    special = history.of("exec") | history.of("update")
    wanted = _in(history, parts) or [key for key in history.lives if key not in special]
    ids = (key for key in wanted if key in history.lives)
    return _each(history, ids, lambda key: _twice(history.kinds(key)))


def order(history: History, _: Parts) -> Judged:
    def wrong(key: str) -> str:
        first = list(dict.fromkeys(k for k in history.kinds(key) if k is not DELETED))
        bad = [f"{one.name} comes before {two.name}" for one, two in pairwise(first) if two < one]
        return bad[0] if bad else ""

    return _each(history, (key for key in history.lives if len(history.kinds(key)) > 1), wrong)


def last(history: History, _: Parts) -> Judged:
    def wrong(key: str) -> str:
        kinds = history.kinds(key)
        after = [kind for kind in kinds[kinds.index(DELETED) :] if kind is not DELETED]
        return f"{after[0].name} comes after DELETED" if after else ""

    return _each(history, (key for key in history.lives if DELETED in history.kinds(key)), wrong)


def _flawed(flaw: Flaw, history: History, _: Parts) -> Judged:
    def wrong(heard: Heard) -> str:
        return MEANINGS[flaw].what if heard.fact.flawed and flaw in heard.fact.flawed.flaws else ""

    return _events(history, history.heard(), wrong)


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


def _ends(history: History) -> Iterator[Heard]:
    """The exits whose time is known, and not impossible."""
    return (h for h in history.heard() if h.fact.ended_ns and not h.fact.flawed)


def exact_times(history: History, _: Parts) -> Judged:
    def wrong(heard: Heard) -> str:
        ended = heard.fact.ended_ns or 0
        early = ((heard.own.started_ns if heard.own else 0) - ended) / _SECOND
        if early > 0:
            return f"says that it finished {early:.3f} s before it started"
        return "is of an exit that comes later" if heard.fact.created_at_ns < ended else ""

    # A recording does not hold the statuses.
    return _events(history, (heard for heard in _ends(history) if heard.own), wrong)


def stamps(history: History, _: Parts) -> Judged:
    latest = 0

    def wrong(heard: Heard) -> str:
        nonlocal latest
        before, made = latest, heard.fact.created_at_ns
        latest = max(latest, made)
        if made > heard.fact.received_wall_ns + _SECOND:
            return "was made in the future"
        early = (before - made) / _SECOND
        return f"was made {early:.6f} s before the last" if early > 0 else ""

    return _events(history, history.heard(), wrong)


def exit_delay(history: History, _: Parts) -> Judged:
    took: dict[str, float] = {}
    for heard in _ends(history):
        if history.findings is not None or history.cases[heard.id].part == "plain":
            took[heard.id] = (heard.fact.received_wall_ns - (heard.fact.ended_ns or 0)) / _SECOND
    times = sorted(took.values())
    judged = _each(
        history, took, lambda key: f"{took[key]:.1f} s late" if took[key] > _VERY_LATE else ""
    )
    if times:
        judged.note = f"half within {times[len(times) // 2]:.3f} s, all within {times[-1]:.3f} s"
    return judged


def sandboxes(history: History, _: Parts) -> Judged:
    of = {
        key: " ".join(kind.name for kind in sorted(set(history.kinds(key))))
        for key, life in history.lives.items()
        if life[0].fact.kind is ObjectKind.SANDBOX and history.is_whole(key)
    }
    usual = max(of.values(), key=list(of.values()).count, default="")
    judged = _each(history, of, lambda key: f"{of[key]}, not {usual}" if of[key] != usual else "")
    judged.note = usual
    return judged


def lost(history: History, parts: Parts, stream: str = MAIN) -> Judged:
    if history.findings is not None:
        return _lost_in_a_recording(history, history.findings, parts)
    heard = history.kinds_by_id(stream)

    def wrong(key: str) -> str:
        missing = [kind for kind in history.owed(key) if kind not in heard.get(key, ())]
        return f"{missing[0].name} is never heard" if missing else ""

    return _each(history, _in(history, parts), wrong, stream)


def _lost_in_a_recording(history: History, findings: tuple[Finding, ...], parts: Parts) -> Judged:
    late = {
        (found.container_id, found.event) for found in findings if found.verdict is Verdict.LATE
    }
    judged = Judged()
    for found in findings:
        is_lost = found.verdict in (Verdict.MISSED, Verdict.GAP)
        if (is_lost or found.verdict is Verdict.CONFIRMED) and _part(found) in parts:
            judged.cases += 1
            if is_lost and (found.container_id, found.event) not in late:
                what = f"{ANNOUNCED_BY[found.event].name} of a {found.kind.value} is never heard"
                judged.breaches.append(Breach(what, history.story(found.container_id)))
    return judged


def _part(found: Finding) -> str:
    """The part that a recorded finding is like."""
    if found.cause in _OUTAGE:
        return "restart"
    if found.cause in _NO_PROOF:
        return ""
    return _OF_RULE.get(found.rule, "plain") if found.kind is ObjectKind.CONTAINER else ""


def _ended(history: History, key: str) -> Heard | None:
    return next((h for h in history.lives.get(key, ()) if h.fact.type is STOPPED), None)


def _final(name: str, history: History, parts: Parts) -> Judged:
    """The exit code or the reason in STOPPED."""

    def wrong(key: str) -> str:
        heard, owed = _ended(history, key), getattr(history.cases[key], name)
        got = owed if heard is None else getattr(heard.fact, name)
        said = name.replace("_", " ")
        return f"STOPPED has the {said} {got or repr(got)}, not {owed}" if got != owed else ""

    return _each(history, _in(history, parts), wrong)


def early(history: History, parts: Parts) -> Judged:
    asked = {act.id: act.at - act.took for act in history.acts("StopContainer")}

    def wrong(key: str) -> str:
        heard = _ended(history, key)
        is_early = heard is not None and heard.at < asked[key] + GRACE
        return "STOPPED is heard before its grace is over" if is_early else ""

    return _each(history, _in(history, parts), wrong)


def false_start(history: History, parts: Parts) -> Judged:
    false = "STARTED is heard, and it was never started"
    starts = history.lives
    return _each(
        history,
        _in(history, parts),
        lambda key: false if key in starts and STARTED in history.kinds(key) else "",
    )


def unmade(history: History, parts: Parts) -> Judged:
    strays = {h.fact.sandbox_id for h in history.heard() if h.id not in history.cases}
    pods = [key for key, case in history.cases.items() if case.part in parts]
    return _each(
        history, pods, lambda key: "an event is heard of what was not made" if key in strays else ""
    )


def network(history: History, parts: Parts) -> Judged:
    of: dict[str, set[EventType]] = {}
    for heard in history.rows:
        if isinstance(heard, Heard) and heard.fact.pod and heard.fact.pod.name in parts:
            of.setdefault(heard.id, set()).add(heard.fact.type)
    false = "STARTED is heard, and no STOPPED"
    judged = _each(
        history, of, lambda key: false if STARTED in of[key] and STOPPED not in of[key] else ""
    )
    judged.cases = judged.cases or sum(act.id in parts for act in history.acts("RunPodSandbox"))
    return judged


def between(history: History, parts: Parts) -> Judged:
    begin = {act.id: act.at for act in history.acts("UpdateContainerResources")}
    end = {act.id: act.at - act.took for act in history.acts("StopContainer")}

    def wrong(key: str) -> str:
        found = [h for h in history.lives.get(key, ()) if begin[key] < h.at < end[key]]
        return f"{found[0].fact.type.name} is heard after it" if found else ""

    return _each(history, (key for key in _in(history, parts) if key in begin), wrong)


def follows(history: History, _: Parts) -> Judged:
    looks = [row for row in history.rows if isinstance(row, Looked)]
    stale = [look for look in looks if _RANK.get(look.state, 2) < look.type]
    return Judged(
        len(looks), [Breach(str(each), history.story(each.id, looks=True)) for each in stale]
    )


def shared(history: History, parts: Parts) -> Judged:
    found = [lost(history, parts, name) for name in history.streams(*parts) if name != LATER]
    breaches = [breach for judged in found for breach in judged.breaches]
    return Judged(sum(judged.cases for judged in found), breaches)


def same_order(history: History, parts: Parts) -> Judged:
    judged, ours = Judged(), history.of(*parts)
    heard = {
        name: [(h.id, h.fact.type) for h in history.heard(name) if h.id in ours]
        for name in history.streams(*parts)
        if name != LATER
    }
    most = max(heard.values(), key=len, default=[])
    for name, events in heard.items():
        both = set(events) & set(most)
        judged.cases += bool(both)
        pairs = zip(*([e for e in each if e in both] for each in (most, events)), strict=False)
        wrong = [two for one, two in pairs if one != two]
        for key, kind in wrong[:1]:
            what = f"{name} hears {kind.name} elsewhere than another one"
            judged.breaches.append(Breach(what, history.story(key, streams=[name, "shared-0"])))
    return judged


def late(history: History, parts: Parts) -> Judged:
    ours = history.of(*parts)

    def wrong(heard: Heard) -> str:
        took = (heard.fact.received_wall_ns - heard.fact.created_at_ns) / _SECOND
        return f"comes {took:.1f} s late" if took > _LATE else ""

    return _events(history, (heard for heard in history.heard() if heard.id in ours), wrong)


def told(history: History, parts: Parts) -> Judged:
    is_told = any(each.stream in parts and each.why for each in history.connected())
    return Judged(1) if is_told else lost(history, parts, "frozen")


def late_one(history: History, _: Parts) -> Judged:
    ups = [each.at for each in history.connected() if each.up and each.stream == LATER]
    number = Counter((h.id, h.fact.type, h.fact.created_at_ns) for h in history.heard(LATER))
    twice = [key for (key, _, _), times in number.items() if times > 1]
    judged = _each(history, twice, lambda _: "it hears an event twice", LATER)
    delays = [h.fact.received_wall_ns - h.fact.created_at_ns for h in history.heard(LATER)]
    before = sum(delay > _SECOND for delay in delays)
    return Judged(len(ups), judged.breaches, f"{before} events from before it came")


def ends(history: History, _: Parts) -> Judged:
    seen = [each for each in history.connected() if each.why and each.stream == MAIN]
    return Judged(len(seen), [Breach(str(each)) for each in seen if each.why == "eof"])


def meanwhile(history: History, parts: Parts, *, down: bool = True) -> Judged:
    if history.findings is not None:
        return lost(history, parts) if down else Judged()
    begin, end = (*history.figures.get("down", ()), 0.0, 0.0)[:2]
    finished = zip(history.of(*parts), history.figures.get("finished", ()), strict=False)
    ids = [key for key, at in finished if at > begin and (at < end) == down]
    return _each(history, ids, lambda key: "" if _ended(history, key) else "no STOPPED is heard")


def later(history: History, parts: Parts) -> Judged:
    return meanwhile(history, parts, down=False)


def _figure(most: float, what: str, name: str, history: History, _: Parts) -> Judged:
    """What was measured is no more than that; with the calls that stood still."""
    values = history.figures.get(name, [])
    held = [
        row.id for row in history.acts("CreateContainer", "RemoveContainer") if row.took > BLOCKED
    ]
    story = history.story(*held) if most == _STOOD else ()
    return Judged(len(values), [Breach(what.format(v), story) for v in values if v > most])


_FIGURES: Final = {
    "pod_status": (0, "PodSandboxStatus has a timestamp, and no statuses"),
    "streamed": (0, "of {:g} containers the two lists show different things"),
    "refused": (0, "the stream ends cleanly at once"),
    "frozen": (_STOOD, "no call returned for {:.1f} s"),
    "nobody": (_STOOD, "no call returned for {:.1f} s"),
    "files": (SPARE, "{:g} more files are open"),
}


def judge_of(name: str) -> Judge:
    """The judge of that name: a public function of this module, one of a flaw, or of a figure."""
    if name in _FIGURES:
        return partial(_figure, *_FIGURES[name], name)
    if name in ("exit_code", "reason"):
        return partial(_final, name)
    flaws = {flaw.value: flaw for flaw in MEANINGS}
    found: Judge = partial(_flawed, flaws[name]) if name in flaws else globals()[name]
    return found
