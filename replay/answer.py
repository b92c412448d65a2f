"""`replay`: runs a recording through this program's ledger; prints the result, or explains it.

An explanation is one container's story: each moment, each verdict, and the reasons.
"""

import argparse
import contextlib
import json
import resource
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from exporter.commands.options import FAIL_ON, AnswerFormat, Fault, failures, faults
from exporter.errors import ConfigError, ShadowPlegError, say, templates
from exporter.evidence.reasons import MEASURES, NOTABLE, delay, why
from exporter.evidence.timeline import (
    Clock,
    ContainerTimeline,
    Moment,
    Witness,
    container_of,
    lasting,
)
from exporter.model.events import Announcement, Pod
from exporter.model.facts import Fact, Relist, learnt
from exporter.model.findings import Finding, Outcome, Verdict
from exporter.pleg.ledger import Ledger
from exporter.settings import flags
from exporter.settings.declaring import Argument, Command, flag, flags_of, from_text
from exporter.settings.files import open_file
from replay.reader import Recording
from replay.replayer import Replay

# Of losses, and of containers that a beginning may mean.
_SHOWN: Final = 100
_NAMED: Final = 5
_NO_POD: Final = Pod()
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
        say(json.dumps(document, indent=2) + "\n")
    else:
        text = templates("replay")
        text.filters["lasting"] = lasting
        say(text.get_template("replay.txt").render(document))
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


@dataclass(slots=True)
class Subject:
    """The identity of a container, as far as the recording has it."""

    id: str
    sandbox_id: str = ""
    name: str = ""
    pod: Pod = _NO_POD


@dataclass(slots=True)
class Index:
    """Collects the containers that `wanted` may mean: the beginning of an id, or a name."""

    wanted: str
    meant: dict[str, Subject] = field(default_factory=dict)

    def look(self, fact: Fact) -> None:
        """Note the containers that the fact names; findings have no others."""
        if isinstance(fact, Announcement):
            self._meet(fact.container_id, fact.sandbox_id, "", fact.pod)
        elif isinstance(fact, Relist):
            for item in fact.changed:
                self._meet(item.id, item.sandbox_id, item.name, item.pod)

    def one(self) -> Subject:
        """The one container that matches; ConfigError if there is none or more than one."""
        if self.wanted in self.meant:
            return self.meant[self.wanted]
        if not self.meant:
            raise ConfigError(
                f"--explain: no container of the recording has the name {self.wanted!r}, or an id"
                " that begins with it"
            )
        if len(self.meant) > 1:
            some = ", ".join(list(self.meant)[:_NAMED])
            raise ConfigError(
                f"--explain: {self.wanted!r} means {len(self.meant)} containers ({some}"
                f"{', ...' if len(self.meant) > _NAMED else ''}): give more of one's id"
            )
        return next(iter(self.meant.values()))

    def _meet(self, container_id: str, sandbox_id: str, name: str, pod: Pod | None) -> None:
        if not container_id.startswith(self.wanted) and name != self.wanted:
            return
        subject = self.meant.setdefault(container_id, Subject(container_id))
        subject.sandbox_id = sandbox_id or subject.sandbox_id
        subject.name = name or subject.name
        subject.pod = pod or subject.pod


class Explainer:
    """Collects moments of a replay, with the reasons of those that are verdicts."""

    def __init__(self, subject: Subject, ledger: Ledger, grace: float) -> None:
        self._id = subject.id
        self._ledger = ledger
        self._grace = grace
        self._timeline = ContainerTimeline(subject.id, subject.sandbox_id)
        self._now = 0.0
        self._story: list[tuple[Moment, tuple[str, ...]]] = []

    def explain(self, fact: Fact, outcome: Outcome) -> None:
        """Add the fact if it bears on the container, and the findings about it."""
        self._now = learnt(fact)
        self._report(self._timeline.add(fact))
        for finding in outcome.findings:
            if finding.container_id == self._id:
                self._report(self._timeline.rest())
                self._judge(finding)

    def story(self) -> list[tuple[Moment, tuple[str, ...]]]:
        """The whole story by time, up to the last moment that concerns the container itself."""
        while self._story and self._story[-1][0].aside:
            self._story.pop()
        return sorted(self._story, key=lambda line: line[0].at)

    def _report(self, moments: list[Moment]) -> None:
        self._story += ((moment, ()) for moment in moments)

    def _judge(self, finding: Finding) -> None:
        reasons: tuple[str, ...] = ()
        if finding.verdict in MEASURES:
            text = delay(finding)
        elif finding.verdict is Verdict.WITNESSED:
            # The line before it says what was listed.
            text = f"this proves {finding.event.label}"
        else:
            cause = f" ({finding.cause.value})" if finding.cause is not None else ""
            text = f"{finding.event.label} {finding.verdict.value.upper()}{cause}"
            reasons = why(finding, self._ledger.profile, self._grace)
        self._story.append((Moment(self._now, Witness.LEDGER, text), reasons))


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
