"""The judges: of each case in a history, what is wrong. What they judge is in properties.yaml.

They look at the parts of a run that they are given, or at all. Blind spot: what was neither made by
an act nor heard of.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from statistics import median, mode
from typing import Final, NamedTuple

from conformance.history import LATER, MAIN, Heard, History, Life, Looked
from exporter.model.events import EventType
from exporter.model.labels import EOF, MEANINGS, Flaw

CREATED, STARTED, STOPPED, DELETED = EventType
_SECOND: Final = 1_000_000_000
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
# What is measured: the most that may be, and what is wrong with more.
FIGURES: Final = {
    "pod_status": (0, "PodSandboxStatus has a timestamp, and no statuses"),
    "streamed": (0, "of {:g} containers the two lists show different things"),
    "refused": (0, "the stream ends cleanly at once"),
    "frozen": (_MOST_PAUSE, "no call returned for {:.1f} s"),
    "unsubscribed": (_MOST_PAUSE, "no call returned for {:.1f} s"),
    "files": (SPARE, "{:g} more files are open"),
}


class Checked(NamedTuple):
    """A case. `wrong`: "" if nothing is. `ids`, `stream`: whose story shows it.

    `note`: what was observed in all cases.
    """

    wrong: str
    ids: tuple[str, ...] = ()
    stream: str = MAIN
    note: str = ""


Parts = tuple[str, ...]
Judge = Callable[[History, Parts], Iterator[Checked]]


def _lives(wrong: Callable[[Life], str], history: History, parts: Parts) -> Iterator[Checked]:
    """Judge the lives of these parts, or of all that was heard of."""
    every = (life for life in history.lives().values() if life.heard)
    for life in history.of(parts) if parts else every:
        yield Checked(wrong(life), (life.id,))


def once(life: Life) -> str:
    (kind, number), *_ = Counter(life.kinds).most_common(1)
    # What comes of these twice is judged for them.
    is_twice = number > 1 and life.case.part not in ("exec", "update")
    return f"{kind.name} is heard {number} times" if is_twice else ""


def in_order(life: Life) -> str:
    first = dict.fromkeys(kind for kind in life.kinds if kind is not DELETED)
    bad = (f"{one.name} comes before {two.name}" for one, two in pairwise(first) if two < one)
    return next(bad, "")


def last(life: Life) -> str:
    kinds = life.kinds
    after = kinds[kinds.index(DELETED) :] if DELETED in kinds else []
    return next((f"{kind.name} comes after DELETED" for kind in after if kind is not DELETED), "")


def not_made(life: Life) -> str:
    """What was not made has no owed CREATED, and may come if it goes again."""
    if CREATED in life.case.owed:
        return "STARTED is heard, and it was never started" if STARTED in life.kinds else ""
    alive = life.kinds and life.kinds[-1] < STOPPED
    return f"{life.kinds[-1].name} is the last that is heard of what was not made" if alive else ""


def exit_code(life: Life) -> str:
    return _end(life, "exit code", life.case.exit_code, life.end and life.end.fact.exit_code)


def reason(life: Life) -> str:
    return _end(life, "reason", life.case.reason, life.end and life.end.fact.reason)


def _end(life: Life, what: str, owed: object, got: object) -> str:
    return f"STOPPED has the {what} {got}, not {owed}" if life.end and got != owed else ""


def graceful(life: Life) -> str:
    is_early = life.end and life.end.at < life.acts["StopContainer"].at + GRACE
    return "STOPPED is heard before its grace is over" if is_early else ""


def quiet(life: Life) -> str:
    before = Counter(h.fact.type for h in life.heard if h.at < life.acts["StopContainer"].at)
    more = [*(before - Counter((CREATED, STARTED)))]
    return f"{more[0].name} is heard, and nothing became of it" if more else ""


def lost(history: History, parts: Parts, stream: str = MAIN) -> Iterator[Checked]:
    for life in history.of(parts, stream):
        wrong = f"{life.missing[0].name} is never heard" if life.missing else ""
        yield Checked(wrong, (life.id,), stream)


def lost_later(history: History, _: Parts) -> Iterator[Checked]:
    return lost(history, ("restart-later",))


def _event(heard: Heard, wrong: str, *, note: str = "") -> Checked:
    return Checked(wrong and f"{heard.fact.type.name} {wrong}", (heard.id,), heard.stream, note)


def _took(heard: Heard, since_ns: int) -> float:
    return (heard.fact.received_wall_ns - since_ns) / _SECOND


def _late(heard: Heard, since_ns: int, most: float) -> str:
    took = _took(heard, since_ns)
    return f"comes {took:.1f} s late" if took > most else ""


def _flawed(flaw: Flaw, history: History, _: Parts) -> Iterator[Checked]:
    for heard in history.heard():
        is_so = heard.fact.flawed and flaw in heard.fact.flawed.flaws
        yield _event(heard, MEANINGS[flaw].what if is_so else "")


def others(history: History, _: Parts) -> Iterator[Checked]:
    known: dict[str, EventType] = {}
    for heard in history.heard():
        for other in heard.statuses or ():
            # An event that was made before may still tell of one that is gone.
            if other.id != heard.id and (latest := known.get(other.id)) is not None:
                is_old = other.state < latest < DELETED
                wrong = f"shows another one older than {latest.name}" if is_old else ""
                yield _event(heard, wrong)._replace(ids=(heard.id, other.id))
        known[heard.id] = heard.fact.type


def stamps(history: History, _: Parts) -> Iterator[Checked]:
    latest = 0
    for heard in history.heard():
        yield _event(heard, _stamped(heard, latest))
        latest = max(latest, heard.fact.created_at_ns)


def _stamped(heard: Heard, latest: int) -> str:
    made, ended = heard.fact.created_at_ns, heard.fact.ended_ns
    if made > heard.fact.received_wall_ns + _SECOND:
        return "was made in the future"
    if made < latest:
        return f"was made {(latest - made) / _SECOND:.6f} s before the last"
    if heard.fact.flawed or not (heard.own and ended):
        return ""
    if (early := heard.own.started_at - ended) > 0:
        return f"says that it finished {early / _SECOND:.3f} s before it started"
    return "is of an exit that comes later" if made < ended else ""


def exit_delay(history: History, _: Parts) -> Iterator[Checked]:
    ends = [
        (heard, heard.fact.ended_ns)
        for heard in history.heard()
        if history.case(heard).part == "plain" and heard.fact.ended_ns and not heard.fact.flawed
    ]
    times = [_took(*end) for end in ends] or [0]
    note = f"half within {median(times):.3f} s, all within {max(times):.3f} s"
    for heard, ended in ends:
        yield _event(heard, _late(heard, ended, _VERY_LATE), note=note)


def sandboxes(history: History, _: Parts) -> Iterator[Checked]:
    others = _NOT_ALONE | history.skipped.keys()
    announced = {
        life.id: " ".join(kind.name for kind in sorted({*life.kinds}))
        for life in history.lives().values()
        if life.heard and life.id == life.case.pod and life.case.part not in others
    }
    usual = mode(announced.values()) if announced else ""
    for key, kinds in announced.items():
        yield Checked(f"{kinds}, not {usual}" if kinds != usual else "", (key,), note=usual)


def up_to_date(history: History, _: Parts) -> Iterator[Checked]:
    for row in history.rows:
        if isinstance(row, Looked):
            yield Checked(str(row) if row.state < row.type else "", (row.id,))


def shared(history: History, parts: Parts) -> Iterator[Checked]:
    ours = {life.id for life in history.of(parts)}
    names = dict.fromkeys(row.stream for row in history.connected("shared"))
    names.pop(LATER, None)
    heard = {
        name: [(h.id, h.fact.type) for h in history.heard(name) if h.id in ours] for name in names
    }
    most = max(heard.values(), key=len, default=[])
    for name, events in heard.items():
        yield from lost(history, parts, name)
        both = set(events) & set(most)
        pairs = zip(*([e for e in each if e in both] for each in (most, events)), strict=False)
        for key, kind in [two for one, two in pairs if one != two][:1]:
            yield Checked(f"{name} hears {kind.name} elsewhere than another one", (key,), name)


def not_blocked(history: History, parts: Parts) -> Iterator[Checked]:
    yield from _measured("frozen", history, parts)
    for heard in history.heard():
        if history.case(heard).part in parts:
            yield _event(heard, _late(heard, heard.fact.created_at_ns, _LATE))


def told(history: History, parts: Parts) -> Iterator[Checked]:
    is_told = any(row.why for row in history.connected("frozen"))
    return iter([Checked("")]) if is_told else lost(history, parts, "frozen")


def no_replay(history: History, _: Parts) -> Iterator[Checked]:
    heard = [*history.heard(LATER)]
    number = Counter((h.id, h.fact.type, h.fact.created_at_ns) for h in heard)
    before = sum(bool(_late(each, each.fact.created_at_ns, 1)) for each in heard)
    for each in heard:
        is_twice = number[each.id, each.fact.type, each.fact.created_at_ns] > 1
        note = f"{before} events from before it came"
        yield _event(each, "is heard twice" if is_twice else "", note=note)


def no_clean_end(history: History, _: Parts) -> Iterator[Checked]:
    for row in history.connected(MAIN):
        if row.why:
            yield Checked(str(row) if row.why == EOF else "")


def _measured(name: str, history: History, _: Parts) -> Iterator[Checked]:
    """What was measured is no more than that; with the calls that were blocked."""
    most, what = FIGURES[name]
    if (value := history.figures.get(name)) is not None:
        held = (act.id for act in history.acts() if act.took > BLOCKED and most == _MOST_PAUSE)
        yield Checked(what.format(value) if value > most else "", tuple(held))


# By the words of properties.yaml.
JUDGES: Final[dict[str, Judge]] = {
    **{flaw.value: partial(_flawed, flaw) for flaw in MEANINGS},
    **{figure: partial(_measured, figure) for figure in FIGURES},
    **{
        of_one.__name__: partial(_lives, of_one)
        for of_one in (once, in_order, last, not_made, exit_code, reason, graceful, quiet)
    },
    **{
        judge.__name__: judge
        for judge in (
            *(lost, lost_later, others, stamps, exit_delay, sandboxes, up_to_date),
            *(shared, not_blocked, told, no_replay, no_clean_end),
        )
    },
}
