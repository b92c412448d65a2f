"""The log line of a miss: its fields and its level."""

import pytest
from structlog.typing import EventDict

from exporter.model.events import Lifecycle, ObjectKind, Pod
from exporter.model.facts import StreamDown
from exporter.model.findings import Cause, Finding, Outcome, Verdict
from exporter.model.labels import Limit, OomKill
from exporter.node.reporter import report
from tests.support.facts import found

pytestmark = pytest.mark.usefixtures("log")


def said(*findings: Finding) -> None:
    report(StreamDown(0.0), Outcome(findings))


@pytest.mark.parametrize("cause", Cause)
def test_each_miss_is_a_line_that_names_the_container(log: list[EventDict], cause: Cause) -> None:
    """Labels cannot say which container it was; the log does. What was lost is a warning.

    What is never announced is none: two pods with a bad command made 219 lines in 50 minutes.
    """
    died = found(Verdict.MISSED, cause)
    said(died._replace(name="app", pod=Pod(namespace="shop", name="web-0", uid="u-1")))
    quiet = "debug" if cause is Cause.BY_DESIGN else "info"
    level = "warning" if cause in (Cause.SILENT, Cause.STALLED) else quiet
    line = {"event": "missed event", "log_level": level, "cause": cause.value}
    names = {"namespace": "shop", "pod": "web-0", "container": "app"}
    assert log == [line | names | {"_event": "ContainerDied", "object": "container", "id": "c1"}]


FAULTS = {
    Verdict.MISSED: "missed event",
    Verdict.GHOST: "ghost container",
    Verdict.STRAY: "stray container",
    Verdict.TWIN: "twin container",
    Verdict.FROZEN: "frozen container",
    Verdict.SLOW: "exit announced late",
    Verdict.STALE: "stale status",
    Verdict.DISAGREES: "status disagrees",
    Verdict.UNKNOWN_TO_KUBELET: "container unknown to the kubelet",
    Verdict.OVERDUE_PROCESS: "overdue pod: a process lives",
    Verdict.OVERDUE_RUNTIME: "overdue pod: the runtime lists it running",
    Verdict.OVERDUE_KUBELET: "overdue pod: the kubelet keeps it",
    Verdict.OOM: "OOM kill",
}


@pytest.mark.parametrize("verdict", FAULTS)
def test_each_fault_is_a_line_even_without_names(log: list[EventDict], verdict: Verdict) -> None:
    slow = 12.25 if verdict is Verdict.SLOW else None
    said(Finding(verdict, Lifecycle.DIED, ObjectKind.SANDBOX, "p1", seconds=slow))
    seconds = {"seconds_late": "12.250"} if slow else {}
    names = dict.fromkeys(("namespace", "pod", "container"), "")
    ids = {"_event": "ContainerDied", "object": "sandbox", "id": "p1"}
    line = {"event": FAULTS[verdict], "log_level": "warning"}
    assert log == [line | names | ids | seconds]


@pytest.mark.parametrize(
    ("finding", "known"),
    [
        (found(Verdict.TWIN)._replace(other="c0"), {"older": "c0"}),
        (found(Verdict.MISSED, Cause.SILENT)._replace(other="c9"), {"younger": "c9"}),
        (found(Verdict.GHOST)._replace(limit=Limit.POD), {"oom_killed_at_limit": "its pod's"}),
        (found(Verdict.STRAY)._replace(before=True), {"since": "before the start"}),
        (
            found(Verdict.OOM, OomKill.SURVIVED)._replace(limit=Limit.POD),
            {"cause": "survived", "limit": "its pod's", "log_level": "warning"},
        ),
        (found(Verdict.OOM, OomKill.ANNOUNCED), {"cause": "announced", "log_level": "info"}),
    ],
    ids=lambda it: it.verdict.value if isinstance(it, Finding) else "",
)
def test_what_else_is_known_is_in_the_line(
    log: list[EventDict], finding: Finding, known: dict[str, str]
) -> None:
    """Which twin is older, whose event proves a loss, what ended a ghost, and the like."""
    said(finding)
    (line,) = log
    assert known.items() <= line.items()


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict not in FAULTS])
def test_only_a_fault_is_logged(log: list[EventDict], verdict: Verdict) -> None:
    said(*[Finding(verdict, Lifecycle.DIED, ObjectKind.CONTAINER, "c1")] * 3)
    assert log == []
