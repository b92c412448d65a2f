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


def test_of_twins_the_older_one_is_named_too(log: list[EventDict]) -> None:
    said(found(Verdict.TWIN)._replace(other="c0"))
    assert [(line["id"], line["older"]) for line in log] == [("c1", "c0")]


@pytest.mark.parametrize(
    ("kind", "level"), [(OomKill.SURVIVED, "warning"), (OomKill.ANNOUNCED, "info")]
)
def test_a_kill_says_whose_limit_it_was(log: list[EventDict], kind: OomKill, level: str) -> None:
    said(found(Verdict.OOM, kind)._replace(limit=Limit.POD))
    (line,) = log
    assert (line["cause"], line["limit"], line["log_level"]) == (kind.value, "its pod's", level)


def test_a_ghost_says_that_an_oom_kill_ended_it(log: list[EventDict]) -> None:
    """Who looks for its process knows where it went."""
    said(found(Verdict.GHOST)._replace(limit=Limit.POD))
    (line,) = log
    assert (line["event"], line["oom_killed_at_limit"]) == ("ghost container", "its pod's")


def test_what_stands_from_before_is_said_to(log: list[EventDict]) -> None:
    """Each start finds it again: it is no news."""
    said(found(Verdict.STRAY)._replace(before=True))
    (line,) = log
    assert (line["event"], line["since"]) == ("stray container", "before the start")


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict not in FAULTS])
def test_only_a_fault_is_logged(log: list[EventDict], verdict: Verdict) -> None:
    said(*[Finding(verdict, Lifecycle.DIED, ObjectKind.CONTAINER, "c1")] * 3)
    assert log == []
