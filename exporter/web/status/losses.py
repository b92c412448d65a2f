"""The newest cases in one line each, with the number that identifies their evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exporter.evidence.case import Case
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


def _loss(case: Case) -> Loss:
    finding, at = case.finding, case.at
    pod = finding.pod
    cause = finding.cause.value if finding.cause is not None else ""
    names = (pod.namespace, pod.name, finding.name) if pod is not None else ("", "", finding.name)
    return Loss(
        number=case.observer.number,
        at=at,
        time=at[_TIME],
        verdict=", ".join(filter(None, (finding.verdict.value, cause))),
        event=finding.event.label,
        kind=finding.kind.value,
        where="/".join(filter(None, names)),
        container_id=finding.container_id[:_ID],
    )
