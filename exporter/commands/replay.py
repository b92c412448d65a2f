"""`replay`: runs a recording through this program's ledger and reports the result.

It prints a document or lines of text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from exporter.commands.options import AnswerFormat, ReplayOptions
from exporter.errors import ConfigError, ShadowPlegError
from exporter.evidence.clock import Clock
from exporter.evidence.reasons import NOTABLE
from exporter.pleg.chronicle import Listener
from exporter.pleg.facts import RecordedFact, learnt
from exporter.pleg.findings import Finding, Verdict
from exporter.process.printable import printable
from exporter.recording.explainer import Explained, Explainer, Index, Subject
from exporter.recording.reader import Recording
from exporter.recording.replayer import Replay

_SHOWN: Final = 100
# Of an ISO time: without the date, to the millisecond.
_TIME: Final = slice(11, 23)

Document = dict[str, Any]


@dataclass(slots=True)
class _Losses:
    """Collects the findings worth examining, and the time."""

    first: list[tuple[float, Finding]] = field(default_factory=list)
    number: int = 0
    began: float | None = None
    now: float = 0.0

    def fact(self, fact: RecordedFact) -> None:
        """Record the time."""
        self.now = learnt(fact)
        self.began = self.now if self.began is None else self.began

    def found(self, findings: Sequence[Finding]) -> None:
        """Keep the first of those that matter."""
        for finding in findings:
            if finding.verdict is Verdict.LATE or (finding.verdict, finding.cause) in NOTABLE:
                self.number += 1
                if len(self.first) < _SHOWN:
                    self.first.append((self.now, finding))


def replay(path: Path, options: ReplayOptions) -> bool:
    """Print the answer; returns whether the recording is complete and agrees with the live run."""
    if options.explain:
        done, document = _story(path, options.explain)
    else:
        losses = _Losses()
        done = _replayed(path, lambda _replay: losses)
        document = _summary(done, losses)
    if options.output_format is AnswerFormat.JSON:
        lines = [json.dumps(document, indent=2)]
    else:
        told = _story_lines(document) if options.explain else _summary_lines(document)
        lines = [printable(line) for line in told]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
    return done.comparison.agrees and not done.recording.damage


def _replayed(path: Path, listener: Callable[[Replay], Listener]) -> Replay:
    """Replay the recording to that listener; ConfigError if it is not a recording."""
    try:
        with path.open("rb") as file:
            done = Replay(Recording(file))
            done.run(listener(done))
            return done
    except OSError as error:
        raise ConfigError(f"FILE: {str(path)!r} cannot be read: {error.strerror}") from None
    except ShadowPlegError as error:
        raise ConfigError(
            f"FILE: {str(path)!r} cannot be replayed: {error}: give a file that"
            " `shadow-pleg record` wrote"
        ) from None


def _clock(done: Replay) -> Clock:
    header = done.recording.header
    return Clock(header.monotonic, header.wall_ns)


def _about(done: Replay) -> Document:
    """What every answer reports about the recording."""
    header, comparison = done.recording.header, done.comparison
    end = done.recording.end
    return {
        "recorded_by": header.shadow_pleg,
        "node": header.node,
        "redacted": header.redacted,
        "grace_seconds": header.grace,
        "runtimes": list(done.runtimes),
        "ended": end.why if end is not None else None,
        "damage": done.recording.damage or None,
        "same_verdicts": comparison.same,
        "live_verdicts": comparison.live,
        "first_difference": comparison.difference or None,
    }


# --- the whole recording ------------------------------------------------------


def _summary(done: Replay, losses: _Losses) -> Document:
    clock = _clock(done)
    began = losses.began if losses.began is not None else losses.now
    verdicts = sorted(
        done.verdicts.items(), key=lambda row: (row[0][0].value, str(row[0][1] and row[0][1].value))
    )
    return {
        **_about(done),
        "began": clock.wall(began),
        "seconds": round(losses.now - began, 3),
        "facts": dict(sorted(done.facts.items())),
        "verdicts": [
            {"verdict": verdict.value, "cause": cause and cause.value, "number": number}
            for (verdict, cause), number in verdicts
        ],
        "losses": [_loss(clock, at, finding) for at, finding in losses.first],
        "losses_not_shown": losses.number - len(losses.first),
    }


def _loss(clock: Clock, at: float, finding: Finding) -> Document:
    return {
        "at": clock.wall(at),
        "verdict": finding.verdict.value,
        "cause": finding.cause and finding.cause.value,
        "event": finding.event.label,
        "object": finding.kind.value,
        "id": finding.container_id,
        "name": finding.name,
        "namespace": finding.pod.namespace if finding.pod else "",
        "pod": finding.pod.name if finding.pod else "",
    }


def _about_lines(about: Document) -> Iterator[str]:
    runtimes = ", ".join(about["runtimes"]) or "a runtime that never answered"
    whose = f" on {about['node']}" if about["node"] else ""
    hidden = ", pseudonyms" if about["redacted"] else ""
    grace = f"grace {about['grace_seconds']:g} s"
    yield f"recording  shadow-pleg {about['recorded_by']}{whose}, {runtimes}, {grace}{hidden}"
    if about["damage"]:
        yield f"damage     {about['damage']}; what came before was replayed"
    elif about["ended"] != "stopped":
        yield f"end        it ended because it was {about['ended']}"
    if about["first_difference"]:
        yield f"verdicts   NOT the same as live: {about['first_difference']}"
    else:
        yield f"verdicts   the same as live: {about['same_verdicts']} of {about['live_verdicts']}"


def _summary_lines(summary: Document) -> Iterator[str]:
    yield from _about_lines(summary)
    yield f"time       {summary['began']}, {summary['seconds']:g} s"
    facts = ", ".join(f"{name} {number}" for name, number in summary["facts"].items())
    yield f"facts      {facts or 'none'}"
    for row in summary["verdicts"]:
        cause = f" ({row['cause']})" if row["cause"] else ""
        yield f"           {row['number']:>8} {row['verdict']}{cause}"
    for loss in summary["losses"]:
        cause = f" {loss['cause']}" if loss["cause"] else ""
        pod = "/".join(part for part in (loss["namespace"], loss["pod"], loss["name"]) if part)
        what = f"{loss['verdict'].upper()}{cause} {loss['event']} of {loss['object']} {loss['id']}"
        yield f"{loss['at'][_TIME]}  {what} {pod}".rstrip()
    if summary["losses_not_shown"]:
        yield f"and {summary['losses_not_shown']} more"
    if summary["losses"]:
        yield "to see why: shadow-pleg replay FILE --explain ID"


# --- one container ------------------------------------------------------------


def _story(path: Path, wanted: str) -> tuple[Replay, Document]:
    index = Index(wanted)
    _replayed(path, lambda _replay: index)
    subject = index.one()
    explainers: list[Explainer] = []

    def explainer(done: Replay) -> Explainer:
        explainers.append(Explainer(subject, done.ledger, done.recording.header.grace))
        return explainers[0]

    done = _replayed(path, explainer)
    story = explainers[0].finish()
    return done, {**_about(done), **_told(story, subject, _clock(done), done)}


def _told(story: list[Explained], subject: Subject, clock: Clock, done: Replay) -> Document:
    profile = done.ledger.profile
    began = story[0].moment.at if story else 0.0
    return {
        "container": {
            "id": subject.id,
            "name": subject.name,
            "sandbox_id": subject.sandbox_id,
            "namespace": subject.pod.namespace,
            "pod": subject.pod.name,
            "uid": subject.pod.uid,
        },
        "profile": profile.why,
        "never_announced": sorted(rule.value for rule in profile.never),
        "timeline": [
            {
                "at": clock.wall(each.moment.at),
                "seconds": round(each.moment.at - began, 6),
                "witness": each.moment.witness.value,
                "text": each.moment.text,
                "reasons": list(each.reasons),
            }
            for each in story
        ],
    }


def _story_lines(story: Document) -> Iterator[str]:
    yield from _about_lines(story)
    who = story["container"]
    pod = "/".join(part for part in (who["namespace"], who["pod"], who["name"]) if part)
    yield f"container  {who['id']} {pod}".rstrip()
    yield f"sandbox    {who['sandbox_id'] or 'unknown'}"
    yield f"profile    {story['profile']}"
    for rule in story["never_announced"]:
        yield f"           never announced: {rule}"
    yield ""
    yield f"{'time (UTC)':12}  {'seconds':>11}  witness  what"
    for moment in story["timeline"]:
        yield (
            f"{moment['at'][_TIME]:12}  {moment['seconds']:>+11.3f}  {moment['witness']:7}"
            f"  {moment['text']}"
        )
        for reason in moment["reasons"]:
            yield f"{'':36}- {reason}"
