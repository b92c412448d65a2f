"""`replay`: runs a recording through this program's ledger, and prints the result."""

import argparse
import contextlib
import json
import resource
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from exporter.commands.options import FAIL_ON, AnswerFormat, Fault, failures, faults
from exporter.errors import ConfigError, ShadowPlegError, templates
from exporter.evidence.reasons import NOTABLE
from exporter.evidence.timeline import Clock, container_of, lasting
from exporter.model.facts import learnt
from exporter.model.findings import Finding, Verdict
from exporter.settings import flags
from exporter.settings.declaring import Argument, Command, flag, flags_of, from_text
from exporter.settings.files import open_file
from replay.explainer import Explainer, Index
from replay.reader import Recording
from replay.replayer import Replay

_SHOWN: Final = 100
# More than a recording of 100 000 containers, the most that `record` watches, needs: 150 MiB.
_MOST_BYTES: Final = 180 << 20

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The flags of `replay`."""

    explain: str = flag(
        "explain CONTAINER",
        "",
        str,
        "explain the verdicts of this container or sandbox: an id, its beginning, or a container's"
        " name",
    )
    fail_on: tuple[Fault, ...] = flag("fail-on KINDS", "never", faults, FAIL_ON)
    output_format: AnswerFormat = flag(
        "output-format", "text", flags.one_of(AnswerFormat), "format of the answer"
    )


def replay(path: Path, options: ReplayOptions) -> bool:
    """Print the answer; returns whether the recording is complete, agrees, and passes the gate."""
    done, document = _story(path, options.explain) if options.explain else _summary(path)
    failed = failures(options.fail_on, done.verdicts, done.runtimes)
    document |= {"fail_on": [each.value for each in options.fail_on], "failed": failed}
    if options.output_format is AnswerFormat.JSON:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        text = templates("replay")
        text.filters["lasting"] = lasting
        sys.stdout.write(text.get_template("replay.txt").render(document))
    sys.stdout.flush()
    return done.comparison.agrees and not done.recording.damage and not failed


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    """Raise MemoryError if the block allocates more than `_MOST_BYTES`."""
    usual = resource.getrlimit(resource.RLIMIT_DATA)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    most = pages * resource.getpagesize() + _MOST_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (most, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, usual)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Replay]:
    try:
        file = open_file(path)
    except OSError as error:
        raise _unreadable(path, error) from None
    except ValueError as error:
        raise ConfigError(f"FILE: {str(path)!r} {error}: save the recording first") from None
    try:
        with file, _bounded():
            yield Replay(Recording(file))
    except OSError as error:
        raise _unreadable(path, error) from None
    except MemoryError:
        raise ConfigError(
            f"FILE: {str(path)!r} needs more than {_MOST_BYTES >> 20} MiB of memory, more than a"
            " node that `shadow-pleg record` can watch"
        ) from None
    except ShadowPlegError as error:
        raise ConfigError(
            f"FILE: {str(path)!r} cannot be replayed: {error}: give a file that"
            " `shadow-pleg record` wrote"
        ) from None


def _unreadable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"FILE: {str(path)!r} cannot be read: {error.strerror}")


def _about(done: Replay) -> Document:
    header, end = done.recording.header, done.recording.end
    return {
        "recorded_by": header.shadow_pleg,
        "node": header.node,
        "redacted": header.redacted,
        "grace_seconds": header.grace,
        "runtimes": list(done.runtimes),
        "ended": end.why if end is not None else None,
        "damage": done.recording.damage or None,
        "same_verdicts": done.comparison.same,
        "live_verdicts": done.comparison.live,
        "first_difference": done.comparison.difference or None,
    }


def _summary(path: Path) -> tuple[Replay, Document]:
    began: float | None = None
    ended = 0.0
    delays: defaultdict[Verdict, list[float]] = defaultdict(list)
    losses: list[tuple[float, Finding]] = []
    with _opened(path) as done:
        for fact, outcome in done:
            ended = learnt(fact)
            if began is None:
                began = ended
            for finding in outcome.findings:
                if finding.seconds is not None:
                    delays[finding.verdict].append(finding.seconds)
                if finding.verdict is Verdict.LATE or (finding.verdict, finding.cause) in NOTABLE:
                    losses.append((ended, finding))
    clock = Clock(done.recording.header.monotonic, done.recording.header.wall_ns)
    began = began or 0.0
    verdicts = (
        {"verdict": verdict.value, "cause": cause and cause.value, "number": number}
        for (verdict, cause), number in done.verdicts.items()
    )
    return done, {
        **_about(done),
        "began": clock.wall(began),
        "seconds": round(ended - began, 3),
        "facts": dict(sorted(done.facts.items())),
        "verdicts": sorted(verdicts, key=lambda row: (row["verdict"], str(row["cause"]))),
        "exit_to_event": _quantiles(delays[Verdict.EXIT_ANNOUNCED]),
        "exit_to_list": _quantiles(delays[Verdict.EXIT_LISTED]),
        "exit_to_status": _quantiles(delays[Verdict.EXIT_BELIEVED]),
        "losses": [_loss(clock, at, finding) for at, finding in losses[:_SHOWN]],
        "losses_not_shown": max(0, len(losses) - _SHOWN),
    }


def _quantiles(seconds: list[float]) -> Document | None:
    if not seconds:
        return None
    seconds.sort()
    p50, p99 = (seconds[int(share * (len(seconds) - 1))] for share in (0.5, 0.99))
    return {"exits": len(seconds), "p50_seconds": round(p50, 6), "p99_seconds": round(p99, 6)}


def _loss(clock: Clock, at: float, finding: Finding) -> Document:
    return {
        "at": clock.wall(at),
        "verdict": finding.verdict.value,
        "cause": finding.cause and finding.cause.value,
        "event": finding.event.label,
        "object": finding.kind.value,
        **container_of(finding.container_id, "", finding.name, finding.pod),
    }


def _story(path: Path, wanted: str) -> tuple[Replay, Document]:
    index = Index(wanted)
    with _opened(path) as done:
        for fact, _ in done:
            index.look(fact)
    subject = index.one()
    with _opened(path) as done:
        explainer = Explainer(subject, done.ledger, done.recording.header.grace)
        for fact, outcome in done:
            explainer.explain(fact, outcome)
    story = explainer.story()
    clock = Clock(done.recording.header.monotonic, done.recording.header.wall_ns)
    profile = done.ledger.profile
    return done, {
        **_about(done),
        "container": container_of(subject.id, subject.sandbox_id, subject.name, subject.pod),
        "profile": profile.why,
        "never_announced": sorted(rule.value for rule in profile.never),
        "timeline": [
            moment.document(clock, story[0][0].at) | {"reasons": list(reasons)}
            for moment, reasons in story
        ],
    }


def _replay(given: argparse.Namespace) -> bool:
    return replay(Path(given.file), from_text(ReplayOptions, vars(given)))


REPLAY: Final = Command(
    _replay,
    "to explain or dispute a verdict: judge a recording again",
    flags_of(ReplayOptions),
    Argument("file", "a file that `shadow-pleg record` wrote"),
)
