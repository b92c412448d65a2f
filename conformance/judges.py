"""The judges of properties.yaml: each finds its cases in a history, and what is wrong with each.

A judge looks at the given parts of a run; at all if none is given. Blind spot: containers that were
neither made by a call nor heard of.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from statistics import median, mode
from typing import Final, NamedTuple

from conformance.history import LATER, MAIN, Heard, History, Life, Shown
from exporter.cri.client import TIMED_OUT
from exporter.model.events import EventType
from exporter.model.labels import EOF, MEANINGS, Flaw

CREATED, STARTED, STOPPED, DELETED = EventType
_SECOND: Final = 1_000_000_000
# What waited for a subscriber comes within so many seconds after that one begins to read.
_RELEASED: Final = 2.0
# The part of calls that announce nothing. If so many return meanwhile, nothing else stalled.
CONTROL: Final = "control"
CONTROLS: Final = 25
_HANGS: Final = TIMED_OUT.upper()
_LATE: Final = 10.0
# Seconds of grace in the part `grace`.
GRACE: Final = 1


class Checked(NamedTuple):
    """A judged case. `wrong`: what is wrong, or "". `ids`, `stream`: whose story shows it.

    `note`: what was observed over all cases.
    """

    wrong: str
    ids: tuple[str, ...] = ()
    stream: str = MAIN
    note: str = ""


Parts = tuple[str, ...]
_Spans = list[tuple[float, float, Checked]]
Judge = Callable[[History, Parts], Iterator[Checked]]


def _lives(
    wrong: Callable[[Life], str], history: History, parts: Parts, stream: str = MAIN
) -> Iterator[Checked]:
    """Judge the lives of these parts; without parts, all lives that were heard of."""
    every = (life for life in history.lives(stream).values() if life.heard)
    for life in history.of(parts, stream) if parts else every:
        yield Checked(wrong(life), (life.id,), stream)


def once(life: Life) -> str:
    # `quiet` judges what comes twice in the part `exec`.
    number = Counter(life.kinds if life.case.part != "exec" else ())
    return next((f"{kind.name} is heard {n} times" for kind, n in number.items() if n > 1), "")


def in_order(life: Life) -> str:
    first = dict.fromkeys(kind for kind in life.kinds if kind is not DELETED)
    bad = (f"{one.name} comes before {two.name}" for one, two in pairwise(first) if two < one)
    return next(bad, "")


def last(life: Life) -> str:
    kinds = life.kinds
    after = kinds[kinds.index(DELETED) :] if DELETED in kinds else []
    return next((f"{kind.name} comes after DELETED" for kind in after if kind is not DELETED), "")


def not_made(life: Life) -> str:
    """What could not be made owes no CREATED; if one comes, its end has to come, too."""
    if CREATED in life.case.owed:
        return "STARTED is heard, and it was never started" if STARTED in life.kinds else ""
    alive = life.kinds and life.kinds[-1] < STOPPED
    return f"{life.kinds[-1].name} is the last event of what was never created" if alive else ""


def ends(what: str, life: Life) -> str:
    owed, got = getattr(life.case, what), life.end and getattr(life.end.fact, what)
    is_wrong = life.end and got != owed
    return f"STOPPED has the {what.replace('_', ' ')} {got}, not {owed}" if is_wrong else ""


def graceful(life: Life) -> str:
    is_early = life.end and life.end.at < life.acts["StopContainer"].at + GRACE
    return "STOPPED is heard before its grace is over" if is_early else ""


def quiet(life: Life) -> str:
    before = Counter(h.fact.type for h in life.heard if h.at < life.acts["StopContainer"].at)
    more = [*(before - Counter((CREATED, STARTED)))]
    return f"{more[0].name} is announced, although nothing changed" if more else ""


def lost(life: Life) -> str:
    return f"{life.missing[0].name} is never heard" if life.missing else ""


def _event(heard: Heard, wrong: str, *, note: str = "") -> Checked:
    return Checked(wrong and f"{heard.fact.type.name} {wrong}", (heard.id,), heard.stream, note)


def _took(heard: Heard, since_ns: int) -> float:
    return (heard.fact.received_wall_ns - since_ns) / _SECOND


def _late(took: float) -> str:
    return f"comes {took:.1f} s late"


def _flawed(flaw: Flaw, history: History, _: Parts) -> Iterator[Checked]:
    for heard in history.heard():
        is_so = heard.fact.flawed and flaw in heard.fact.flawed.flaws
        yield _event(heard, MEANINGS[flaw].what if is_so else "")


def others(history: History, _: Parts) -> Iterator[Checked]:
    known: dict[str, EventType] = {}
    for heard in history.heard():
        for other in heard.statuses or ():
            # An event that was made earlier may still show a container that is gone.
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
        took = _took(heard, ended)
        yield _event(heard, _late(took) if took > _LATE else "", note=note)


def sandboxes(history: History, parts: Parts) -> Iterator[Checked]:
    announced = {
        life.id: " ".join(kind.name for kind in sorted({*life.kinds}))
        for life in history.lives().values()
        if life.heard and life.id == life.case.pod and life.case.part in parts
    }
    usual = mode(announced.values() or [""])
    for key, kinds in announced.items():
        yield Checked(f"{kinds}, not {usual}" if kinds != usual else "", (key,), note=usual)


def _shown(of: str, history: History, _: Parts) -> Iterator[Checked]:
    for row in history.rows:
        if isinstance(row, Shown) and row.of == of:
            yield Checked(str(row) if row.wrong else "", (row.id,))


def shared(history: History, parts: Parts) -> Iterator[Checked]:
    for name in dict.fromkeys(row.id for row in history.connected("shared") if row.id != LATER):
        yield from _lives(lost, history, parts, name)
        yield from (each for each in _lives(last, history, parts, name) if each.wrong)


def _waited(history: History, stream: str, spans: _Spans) -> Iterator[Checked]:
    """A breach ends as that subscriber begins to read, after `CONTROLS` while no span ends."""
    calls = (act for act in history.acts() if history.part(act) == CONTROL)
    returned, windows = [act.at + act.took for act in calls], []
    for read in (row.at for row in history.connected(stream) if row.up):
        before = [at for at in returned if at < read][-CONTROLS:]
        if len(before) == CONTROLS and not any(before[0] < end < read for _, end, _ in spans):
            windows.append((before[0], read))
    for begin, end, breach in spans:
        held = any(begin < first and read < end < read + _RELEASED for first, read in windows)
        yield breach if held else breach._replace(wrong="")


def blocked(history: History, parts: Parts, stream: str = MAIN) -> Iterator[Checked]:
    acts = (act for act in history.acts() if history.part(act) in parts)
    spans = [(a.at, a.at + a.took, Checked(str(a), (a.id, stream))) for a in acts]
    yield from _waited(history, stream, spans)


def blocked_or_late(history: History, parts: Parts) -> Iterator[Checked]:
    yield from blocked(history, parts, "frozen")
    spans = []
    for heard in history.heard():
        if history.case(heard).part in parts:
            took = _took(heard, heard.fact.created_at_ns)
            breach = _event(heard, _late(took))._replace(ids=(heard.id, *parts))
            spans.append((heard.at - took, heard.at, breach))
    yield from _waited(history, "frozen", spans)


def told(history: History, parts: Parts) -> Iterator[Checked]:
    is_told = any(row.why for row in history.connected("frozen") if not row.up)
    return iter([Checked("")]) if is_told else _lives(lost, history, parts, "frozen")


def no_clean_end(history: History, _: Parts) -> Iterator[Checked]:
    for row in history.connected(MAIN):
        if row.why:
            yield Checked(str(row) if row.why == EOF else "")


def answered(history: History, _: Parts) -> Iterator[Checked]:
    for act in history.acts():
        # CRI-O waits for a network as long as its client does.
        if history.part(act) != "failed-network":
            yield Checked(str(act) if act.error.startswith(_HANGS) else "", (act.id,))


_OF_LIVES: Final = (once, in_order, last, not_made, graceful, quiet, lost)
_OF_HISTORIES: Final = (
    *(others, stamps, exit_delay, sandboxes, shared),
    *(blocked, blocked_or_late, told, no_clean_end, answered),
)
# By their names in properties.yaml.
JUDGES: Final[dict[str, Judge]] = {
    **{flaw.value: partial(_flawed, flaw) for flaw in MEANINGS},
    **{of: partial(_shown, of) for of in ("list_follows", "pod_status", "refused", "files")},
    **{each.__name__: partial(_lives, each) for each in _OF_LIVES},
    **{each.__name__: each for each in _OF_HISTORIES},
    **{what: partial(_lives, partial(ends, what)) for what in ("exit_code", "reason")},
    "once_later": partial(_lives, once, stream=LATER),
    "lost_later": lambda history, _: _lives(lost, history, ("restart-later",)),
}
