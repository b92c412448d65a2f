"""The tables of docs/compatibility.md, from the profiles and the traces."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import product
from typing import Final

from exporter.model.events import EventType, Lifecycle, ObjectKind
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import Never
from exporter.runtimes.known import PROFILES, profile_of
from exporter.runtimes.runtime import Profile
from exporter.runtimes.versions import Version
from tests.traces.replaying import RUNTIMES, Scenario, replay, scenarios

Row = tuple[str, ...]
_HEARD: Final = (Verdict.CONFIRMED, Verdict.UNSEEN)
# What was announced, and what was not, by its cause.
_COUNTED: Final = (None, Cause.STREAM_DOWN, Cause.BY_DESIGN)


def _subjects(scenario: Scenario) -> Iterator[ObjectKind]:
    names = {event.subject for event in scenario.events}
    names |= {item.id for step in scenario.steps for item in step.listed}
    for name in names:
        yield ObjectKind.SANDBOX if name == "SB" else ObjectKind.CONTAINER


def tables() -> Iterator[tuple[str, tuple[Row, ...]]]:
    runtimes = ("runtime", "versions", "stream", "recorded")
    yield "runtimes", (runtimes, *map(_runtime, PROFILES))
    names = (" ".join(RUNTIMES[runtime]) for runtime in RUNTIMES)
    yield "heard", (("announcement", *names), *_heard())
    never = ("what", "runtimes", "scenarios that show it")
    yield "never", (never, *map(_never, Never))


def _runtime(profile: Profile) -> Row:
    recorded = [
        version
        for name, version in RUNTIMES.values()
        if profile_of(name, version) is profile and profile.name == name
    ]
    return (
        profile.name,
        _span(profile.since, profile.before),
        profile.stream.value,
        ", ".join(recorded) or "-",
    )


def _heard() -> Iterator[Row]:
    """A row for each announcement, a column for each runtime; bold where some did not come."""
    cells = defaultdict[str, list[str]](list)
    for runtime in RUNTIMES:
        mine = [scenario for scenario in scenarios() if scenario.runtime == runtime]
        found = Counter(
            (finding.kind, finding.event, finding.cause if lost else None)
            for scenario in mine
            for finding in replay(scenario)
            if (lost := finding.verdict is Verdict.MISSED) or finding.verdict in _HEARD
        )
        subjects = Counter(kind for scenario in mine for kind in _subjects(scenario))
        for kind, event in product((ObjectKind.SANDBOX, ObjectKind.CONTAINER), EventType):
            announced, *silent = (found[kind, event.announces, cause] for cause in _COUNTED)
            happened = announced + sum(silent)
            if event.announces is Lifecycle.CHANGED:
                # No list shows the creation of what runs already: each was once created.
                happened = subjects[kind]
            said = f"{announced}/{happened}"
            what = f"{event.name} of a {kind.value}"
            cells[what].append(f"**{said}**" if announced < happened else said)
    return ((what, *row) for what, row in cells.items())


# How a finding shows a rule: its object, and its event. In no recording a failed start removes its
# container.
_SHOWN: Final = {
    Never.SANDBOX_REMOVED: (ObjectKind.SANDBOX, Lifecycle.REMOVED),
    Never.SANDBOX_FAILED: (ObjectKind.SANDBOX, Lifecycle.DIED),
    Never.FAILED_START: (ObjectKind.CONTAINER, Lifecycle.DIED),
    Never.DELETED_BELOW: (ObjectKind.CONTAINER, Lifecycle.REMOVED),
    Never.REMOVED_WITH_SANDBOX: (ObjectKind.CONTAINER, Lifecycle.REMOVED),
    Never.FORCED_REMOVAL: (ObjectKind.SANDBOX, Lifecycle.DIED),
}


def _never(rule: Never) -> Row:
    profiles = [profile for profile in PROFILES if rule in profile.never]
    who = []
    for name in dict.fromkeys(profile.name for profile in profiles):
        # Neighbouring rows are one span.
        mine = [profile for profile in profiles if profile.name == name]
        who.append(f"{name} ({_span(mine[0].since, mine[-1].before)})")
    return rule.value, "; ".join(who), _where(rule)


def _where(rule: Never) -> str:
    found = []
    for runtime, (name, version) in RUNTIMES.items():
        mine = (each for each in scenarios() if each.runtime == runtime)
        if number := sum(rule in each.profile.never and _shows(each, rule) for each in mine):
            found.append(f"{name} {version}: {number}")
    return "; ".join(found) or "-"


def _shows(scenario: Scenario, rule: Never) -> bool:
    announced = {(event.subject, event.type) for event in scenario.events}
    if rule is Never.SANDBOX_CREATED:
        return bool(announced) and ("SB", EventType.CREATED) not in announced
    if rule is Never.STOPPED_ONLY_IF_RAN:
        return any(
            event is EventType.STOPPED and not scenario.ran(subject) for subject, event in announced
        )
    return any(
        (finding.kind, finding.event) == _SHOWN.get(rule)
        and finding.cause is Cause.BY_DESIGN
        and not (rule is Never.FAILED_START and scenario.ran(finding.container_id))
        for finding in replay(scenario)
    )


def _span(since: Version | None, before: Version | None) -> str:
    if since and before:
        return f"{_dotted(since)} to before {_dotted(before)}"
    return f"before {_dotted(before)}" if before else f"from {_dotted(since)}" if since else "all"


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
