"""Counts the rare things that tests bring about; `make reached` lists those that none does.

With `--reached` pytest, in one process, counts findings, changes of a step's state and verdicts on
a node, and fails if something that can happen was not among them.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from exporter.conditions import catalogue
from exporter.model.events import Lifecycle, ObjectKind
from exporter.model.findings import Cause, Finding, Verdict, Why
from exporter.model.labels import Flaw, Never
from exporter.pleg import exits
from exporter.pleg.entry import Entry
from exporter.pleg.steps import MOVES, Excuse, Step, StepInput

_times: Final[Counter[str]] = Counter()
_KINDS: Final = {kind: kind.value for kind in ObjectKind}
# Of containers alone, and of these events.
_EXIT: Final = (Lifecycle.DIED,)
_OF_CONTAINERS: Final = {
    **{v: _EXIT for v in Verdict if v.name.startswith("EXIT")},
    **dict.fromkeys((Verdict.UNDECIDED, Verdict.SLOW, Verdict.EVENT_BELIEVED), _EXIT),
    **dict.fromkeys((Verdict.STALE, Verdict.DISAGREES, Verdict.UNKNOWN_TO_KUBELET), _EXIT),
    Verdict.TWIN: (Lifecycle.STARTED,),
}
# A runtime may list anything as running.
_HAUNTED: Final = {Verdict.GHOST: _EXIT, Verdict.STRAY: (Lifecycle.DIED, Lifecycle.REMOVED)}
# What a sandbox has not, and DELETED does not owe, has no flaw.
_OF_A_STATUS: Final = (Flaw.NO_STATUS, Flaw.WRONG_STATE, Flaw.WRONG_TIME)
# Rules that decide whether a step is a gap.
_NO_MISSES: Final = (Never.STOPPED_MEANS_RAN, Never.SANDBOX_CREATED)
_CAUSED: Final[dict[Verdict, tuple[Why | None, ...]]] = {
    Verdict.MISSED: tuple(Cause),
    Verdict.LATE: tuple(cause for cause in Cause if cause is not Cause.BY_DESIGN),
    Verdict.FLAWED: tuple(Flaw),
    Verdict.GAP: (None, *(each.cause for each in Excuse if each.cause), Cause.SHARED),
}


def _name(verdict: Verdict, event: Lifecycle, kind: ObjectKind, cause: Why | None) -> str:
    words = verdict.value, event.label, kind.value, cause.value if cause else ""
    return " ".join(filter(None, words))


def _causes(verdict: Verdict, event: Lifecycle, kind: ObjectKind) -> Iterator[Why | None]:
    """Those that there may be; rules of runtimes are counted by themselves."""
    is_removal = event is Lifecycle.REMOVED
    for cause in _CAUSED.get(verdict, (None,)):
        # Nothing comes after a removal that could show that it was skipped, or is out of order.
        never = is_removal and (verdict is Verdict.GAP or cause is Flaw.OUT_OF_ORDER)
        of_status = cause in _OF_A_STATUS and (is_removal or kind is ObjectKind.SANDBOX)
        if not (never or of_status or cause is Cause.BY_DESIGN):
            yield cause


def possible() -> Iterator[str]:
    """All that can happen, rare or not."""
    for verdict in Verdict:
        kinds = (ObjectKind.CONTAINER,) if verdict in _OF_CONTAINERS else tuple(ObjectKind)
        for event in _OF_CONTAINERS.get(verdict) or _HAUNTED.get(verdict, tuple(Lifecycle)):
            for kind in kinds:
                for cause in _causes(verdict, event, kind):
                    yield _name(verdict, event, kind, cause)
    yield from (f"never announced: {rule.value}" for rule in Never if rule not in _NO_MISSES)
    yield from (f"a step that was {old.value}: {what.value}" for old, what in MOVES)
    yield from (f"a node: {each.name}" for each in catalogue.ALL)


# --- counting -----------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--reached`."""
    parser.addoption("--reached", action="store_true", help="fail if a rare thing never happens")


def pytest_configure(config: pytest.Config) -> None:
    """Count from now on, if that is wanted."""
    if not config.getoption("--reached", default=False):
        return
    _after(Entry, "finding", _note_finding)
    _after(exits, "Finding", _note_finding)
    _after(
        catalogue, "holding", lambda found: _times.update(f"a node: {each.name}" for each in found)
    )
    turn = Step.apply

    def counted(self: Step, what: StepInput) -> Verdict | None:
        _times[f"a step that was {self.state.value}: {what.value}"] += 1
        return turn(self, what)

    Step.apply = counted  # type: ignore[method-assign]


def _after(owner: object, name: str, note: Callable[[Any], object]) -> None:
    original = getattr(owner, name)

    def noting(*args: object, **named: object) -> object:
        result: object = original(*args, **named)
        note(result)
        return result

    setattr(owner, name, noting)


def _note_finding(finding: Finding) -> None:
    _times[_name(finding.verdict, finding.event, finding.kind, finding.cause)] += 1
    if finding.rule:
        _times[f"never announced: {finding.rule.value}"] += 1


# --- the list -----------------------------------------------------------------

# What cannot happen, and why.
IMPOSSIBLE: Final = {
    "contradicted ContainerChanged container": "no list shows what is before its creation",
    "contradicted ContainerChanged sandbox": "no list shows what is before its creation",
    "contradicted ContainerStarted sandbox": "a sandbox is listed once it is ready",
}


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Say what was never reached, and fail if there is anything that can be."""
    if not session.config.getoption("--reached", default=False):
        return
    names = list(possible())
    missing = [name for name in names if not _times[name] and name not in IMPOSSIBLE]
    wrong = [name for name in IMPOSSIBLE if _times[name] or name not in names]
    lines = [f"never reached: {name}" for name in missing]
    lines += [f"reached, or no longer named, although listed as impossible: {n}" for n in wrong]
    rare = sorted((_times[name], name) for name in names if _times[name])[:10]
    lines += [f"{number} times: {name}" for number, name in rare]
    all_possible = len(names) - len(IMPOSSIBLE)
    lines.append(f"{all_possible - len(missing)} of {all_possible} reached")
    print("", *lines, sep="\n")  # noqa: T201
    if missing or wrong:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
