"""The newest cases in one line each, with the number that identifies their evidence."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Final

from exporter.evidence.cases import Cases

SHOWN: Final = 10
_TIME: Final = slice(11, 19)
_ID: Final = 13


@dataclass(frozen=True, slots=True)
class Loss:
    """`at` is when it was proven, ISO 8601 in UTC; `time` its hours, minutes and seconds."""

    number: int
    at: str
    time: str
    verdict: str
    event: str
    kind: str
    where: str
    container_id: str


def losses_of(cases: Cases | None) -> tuple[Loss, ...]:
    """The losses, newest first."""
    return tuple(map(_loss, cases.newest[:SHOWN])) if cases is not None else ()


# A record never changes, so parse it only once.
@functools.lru_cache(maxsize=2 * SHOWN)
def _loss(record: bytes) -> Loss:
    case = json.loads(record)
    container = case["container"]
    names = (container["namespace"], container["pod"], container["name"])
    return Loss(
        number=case["number"],
        at=case["at"],
        time=case["at"][_TIME],
        verdict=", ".join(filter(None, (case["verdict"], case["cause"]))),
        event=case["event"],
        kind=case["object"],
        where="/".join(filter(None, names)),
        container_id=container["id"][:_ID],
    )
