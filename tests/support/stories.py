"""Stories as text, in a YAML file: `created c1 2; list 3 8 c1=RUNNING@p1` are three facts.

The words are builders of facts.py, with their arguments in order or by name; times are
seconds. `list`: relists at those times that show just these, c1 in sandbox p1; `looked`: one, with
the read of all cgroups that comes with it.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from exporter.model.events import Inquiry, Pod, Status
from exporter.model.facts import (
    BeliefsShown,
    Believed,
    CgroupsRead,
    Discarded,
    Inquired,
    ProfileChosen,
    StreamDown,
    StreamRefused,
    Unread,
)
from tests.support import facts
from tests.support.facts import Given, Shown, stopped, wall_ns

_STATES: Final = ("CREATED", "RUNNING", "EXITED", "UNKNOWN", "READY", "NOTREADY")


def _shows(
    at: float,
    uid: str,
    *flags: str,
    due: float | None = None,
    gone: str = "",
    code: int | None = None,
    **shown: Shown,
) -> Believed:
    """The kubelet shows these of a pod: `asked`, or that it is `removed`, with that exit code."""
    pod = Pod("shop", "cart", uid) if uid else Pod()
    end = ("", code, "Error") if code else ("",)
    statuses = tuple(Status(name, how.state, *end) for name, how in shown.items())
    asked, removed = ("asked" in flags), ("removed" in flags)
    left = (gone,) if gone else ()
    return Believed(at, pod, statuses, left, removed=removed, asked=asked, due=due)


# Each has the arguments of its fact, in order or by name; those of lists give several facts.
_LISTS: Final[dict[str, Callable[..., Iterable[Given]]]] = {
    "list": facts.relists,
    "looked": facts.looked,
}
_VERBS: Final[dict[str, Callable[..., Given]]] = {
    **{name: getattr(facts, name) for name in ("created", "started", "stopped", "deleted")},
    **{name: getattr(facts, name) for name in ("up", "populated", "emptied")},
    **{name: getattr(facts, name) for name in ("ends", "killed", "counted")},
    "answer": lambda name, at, word: Inquired(at, name, Inquiry[word]),
    "down": StreamDown,
    "refused": StreamRefused,
    "discarded": Discarded,
    "unread": lambda name, at: Unread(at, name),
    "read": lambda at, **of: CgroupsRead(at, **{name: (who,) for name, who in of.items()}),
    "finished": lambda name, at, ended: stopped(name, at)._replace(
        ended_ns=wall_ns(ended), exit_code=1
    ),
    "profile": lambda at, version: ProfileChosen(at, "containerd", version),
    "known": BeliefsShown,
    "shows": _shows,
}


def told(text: str, preludes: Mapping[str, str] | None = None) -> list[Given]:
    """Its facts. A word in capitals stands for a prelude."""
    preludes = preludes or {}
    found: list[Given] = []
    for step in text.split("; "):
        verb, *words = step.split()
        if verb in preludes:
            found += told(preludes[verb], preludes)
            continue
        plain = [_value(word) for word in words if "=" not in word]
        named = {name: _value(of) for name, _, of in (w.partition("=") for w in words) if of}
        found += (
            _LISTS[verb](*plain, **named) if verb in _LISTS else [_VERBS[verb](*plain, **named)]
        )
    return found


def stories(file: Path, chapter: str) -> dict[str, tuple[list[Given], list[str]]]:
    """A chapter's stories by name: the facts, and what is found, one line for each."""
    book = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return {
        name: (
            told(row["facts"], book["preludes"]),
            row["found"].split("; ") if "found" in row else [],
        )
        for name, row in book[chapter].items()
    }


def _value(word: str) -> Any:
    """A state, with the sandbox after `@`; a number; a text, of which `-` is the empty one."""
    state, _, home = word.partition("@")
    if state in _STATES:
        shown: Shown = getattr(facts, state)
        return shown.inside(home)
    try:
        return int(word) if word.isdigit() else float(word)
    except ValueError:
        return None if word == "None" else word.removeprefix("-")
