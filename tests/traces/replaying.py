"""Recordings of real runtimes, replayed through the ledger; a relist follows each step."""

import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from exporter.model.events import Announcement, EventType, Inquiry, Listed, ListedState, ObjectKind
from exporter.model.facts import Inquired, ProfileChosen, StreamDown, StreamUp
from exporter.model.findings import Finding
from exporter.pleg.ledger import Ledger
from exporter.runtimes.known import profile_of
from exporter.runtimes.runtime import Profile
from tests.support.facts import ELSEWHERE, Differences, Given, Whole, beat, wall_ns

_HERE = Path(__file__).parent
RUNTIMES = {
    "containerd-1.7.24": ("containerd", "1.7.24"),
    "containerd-2.1.9": ("containerd", "2.1.9"),
    "crio-1.36.3": ("cri-o", "1.36.3"),
}
# Whether the kubelet has the gate EventedPLEG.
KINDS = ("polled", "evented")
_GRACE_SECONDS = 1.0
_STEP = 10.0
_STATES = {**ListedState.__members__, "READY": ListedState.RUNNING, "NOTREADY": ListedState.EXITED}


@dataclass(frozen=True, slots=True)
class Recorded:
    """One event of a recording, by its place in it."""

    step: int
    index: int
    subject: str
    type: EventType
    with_status: bool

    def __str__(self) -> str:
        return f"{self.subject}:{self.type.name}"


@dataclass(frozen=True, slots=True)
class Step:
    """One action, what it made the runtime say, and what the lists showed then."""

    action: str
    events: tuple[Recorded, ...]
    listed: tuple[Listed, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One recording. `started`: the containers that really ran."""

    runtime: str
    name: str
    steps: tuple[Step, ...]

    @property
    def profile(self) -> Profile:
        return profile_of(*RUNTIMES[self.runtime])

    @property
    def events(self) -> Iterator[Recorded]:
        return (event for step in self.steps for event in step.events)

    def __str__(self) -> str:
        return f"{self.runtime} {self.name}"

    def ran(self, subject: str) -> bool:
        """Whether it ever started: what `ContainerStatus` would have said."""
        return any(e.subject == subject and e.type is EventType.STARTED for e in self.events)


@cache
def recordings(runtime: str) -> list[dict[str, Any]]:
    """A runtime's scenarios: of each step the action, the events, and what was listed then."""
    found = map(json.loads, (_HERE / "runtimes.jsonl").read_text().splitlines())
    return [each for each in found if each["runtime"] == runtime]


@cache
def scenarios() -> tuple[Scenario, ...]:
    return tuple(
        Scenario(runtime, raw["scenario"], tuple(_step(*each) for each in enumerate(raw["steps"])))
        for runtime in RUNTIMES
        for raw in recordings(runtime)
    )


def rows(kind: str) -> list[dict[str, Any]]:
    """What a real kubelet and its containerd said, polled or evented.

    Kubelet 1.36.2 with the gate PodsAPI on containerd 2.1.9, 22 static pods that crash, fail to
    start, fail probes or run once. A line has its time `t` and an `event` (without what the
    exporter does not read), a `pod` (WatchPodsEvent) or what a list showed: state by id.
    """
    packed = (_HERE / "kubelet-1.36.2.jsonl.xz").read_bytes()
    found = map(json.loads, lzma.decompress(packed).splitlines())
    return [each for each in found if each["kind"] == kind]


def _step(number: int, raw: dict[str, Any]) -> Step:
    events = tuple(
        Recorded(
            number,
            index,
            event["subject"],
            EventType[event["type"]],
            bool(event.get("pod_sandbox_state")),
        )
        for index, event in enumerate(raw["events"])
    )
    listed = tuple(
        Listed(subject, _kind(subject), _STATES[state], "SB", subject)
        for subject, state in raw["listed_after"].items()
    )
    return Step(raw["action"], events, listed)


def _kind(subject: str) -> ObjectKind:
    return ObjectKind.SANDBOX if subject == "SB" else ObjectKind.CONTAINER


def replay(scenario: Scenario, without: Recorded | None = None) -> list[Finding]:
    """All findings of a scenario, one recorded event left out if given."""
    ledger = Ledger(profile_of("", ""), _GRACE_SECONDS)
    ledger.judge(ProfileChosen(0.0, *RUNTIMES[scenario.runtime]))
    findings: list[Finding] = []
    doubts: list[str] = []
    deleted_below: set[str] = set()
    differences = Differences()
    listed: tuple[Listed, ...] = ()

    def take(line: Given) -> None:
        taken = ledger.judge(differences.fact(line))
        findings.extend(taken.findings)
        doubts.extend(taken.doubts)

    def answer(at: float) -> None:
        there = {item.id for item in listed}
        for fact in _answers(scenario, at, doubts, there, deleted_below & there):
            ledger.judge(fact)
        doubts.clear()

    take(_relist(0.0, ()))
    ledger.judge(StreamUp(0.1, 0.0))
    take(beat(0.5))
    take(_relist(1.0, ()))
    for number, step in enumerate(scenario.steps, start=1):
        now = number * _STEP
        if step.action.startswith("restarted"):
            ledger.judge(StreamDown(now))
            ledger.judge(StreamUp(now + 0.1, now))
        for event in step.events:
            if event != without:
                take(_announcement(event, now))
        listed = step.listed
        answer(now)
        if step.action.startswith("ctr c rm"):
            deleted_below.add(step.action.split()[-1])
        take(beat(now + 0.9))
        take(_relist(now + 1, listed))
        answer(now + 1)
        take(beat(now + 1 + 2 * _GRACE_SECONDS))
    end = (len(scenario.steps) + 1) * _STEP
    take(_relist(end, listed))
    take(beat(end + _STEP - 0.1))
    take(_relist(end + _STEP, listed))
    assert ledger.unresolved == 0
    return [finding for finding in findings if finding.container_id != ELSEWHERE]


def _answers(
    scenario: Scenario, at: float, doubts: list[str], there: set[str], deleted_below: set[str]
) -> Iterator[Inquired]:
    for subject in doubts:
        if subject in there:
            ran = scenario.ran(subject)
            yield Inquired(at, subject, Inquiry.STARTED if ran else Inquiry.NEVER_STARTED)
    for subject in deleted_below:
        yield Inquired(at, subject, Inquiry.DELETED_BELOW)


def _relist(at: float, listed: tuple[Listed, ...]) -> Whole:
    return Whole(at, at + 0.01, listed)


def _announcement(event: Recorded, now: float) -> Announcement:
    at = now + 0.2 + event.index / 1000
    kind = _kind(event.subject) if event.with_status else None
    made = wall_ns(at)
    return Announcement(event.subject, event.type, at, made, kind, "SB", received_wall_ns=made)
