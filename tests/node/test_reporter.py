"""The log line of a miss: its fields and its level."""

import pytest
from structlog.typing import EventDict

from exporter.model.events import EventType, Lifecycle, ObjectKind, Pod
from exporter.model.facts import StreamDown
from exporter.model.findings import Cause, Finding, Outcome, Verdict
from exporter.node.reporter import Reporter
from tests.support.observer import observing
from tests.support.runtimes import Bystander, running_container, unannounced
from tests.support.scripted_runtime import ScriptedServer

pytestmark = pytest.mark.usefixtures("log")


def report(reporter: Reporter, *findings: Finding) -> None:
    """Some fact had this outcome."""
    reporter.took(StreamDown(0.0), Outcome(findings))


def missed(cause: Cause = Cause.SILENT, container: str = "c1") -> Finding:
    """A death that was not announced."""
    pod = Pod(namespace="shop", name="web-0", uid="u-1")
    kind = ObjectKind.CONTAINER
    return Finding(Verdict.MISSED, Lifecycle.DIED, kind, container, "app", pod, cause)


@pytest.mark.parametrize("cause", Cause)
def test_each_miss_is_a_line_that_names_the_container(log: list[EventDict], cause: Cause) -> None:
    """Labels cannot say which container it was; the log does. What was lost is a warning."""
    report(Reporter(), missed(cause))
    assert log == [
        {
            "event": "missed event",
            "log_level": "warning" if cause in (Cause.SILENT, Cause.STALLED) else "info",
            "namespace": "shop",
            "pod": "web-0",
            "container": "app",
            "id": "c1",
            "_event": "ContainerDied",
            "object": "container",
            "cause": cause.value,
        }
    ]


def test_a_miss_of_a_nameless_container_is_a_line_too(log: list[EventDict]) -> None:
    """Unknown names are empty; what has no cause names none."""
    nameless = Finding(Verdict.MISSED, Lifecycle.REMOVED, ObjectKind.SANDBOX, "p1")
    report(Reporter(), nameless)
    (line,) = log
    assert (line["namespace"], line["pod"], line["container"]) == ("", "", "")
    assert "cause" not in line
    assert (line["id"], line["object"]) == ("p1", "sandbox")


FAULTS = (Verdict.MISSED, Verdict.GHOST, Verdict.STRAY, Verdict.SLOW)


@pytest.mark.parametrize("verdict", FAULTS[1:3])
def test_a_ghost_and_a_stray_are_a_line(log: list[EventDict], verdict: Verdict) -> None:
    """Their runbooks tell to look for it."""
    report(Reporter(), Finding(verdict, Lifecycle.DIED, ObjectKind.CONTAINER, "c1"))
    (line,) = log
    assert (line["event"], line["log_level"]) == (f"{verdict.value} container", "warning")
    assert line["id"] == "c1"


def test_a_slow_exit_is_a_line_that_says_how_late(log: list[EventDict]) -> None:
    """In seconds."""
    slow = Finding(Verdict.SLOW, Lifecycle.DIED, ObjectKind.CONTAINER, "c1", seconds=12.25)
    report(Reporter(), slow)
    (line,) = log
    assert (line["event"], line["log_level"]) == ("exit announced late", "warning")
    assert (line["id"], line["seconds_late"]) == ("c1", "12.250")


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict not in FAULTS])
def test_only_a_fault_is_logged(log: list[EventDict], verdict: Verdict) -> None:
    """A node in order writes nothing, however much happens on it."""
    report(Reporter(), *[Finding(verdict, Lifecycle.DIED, ObjectKind.CONTAINER, "c1")] * 3)
    assert log == []


async def test_a_miss_on_a_node_is_logged_with_names_from_its_lists(
    server: ScriptedServer, log: list[EventDict]
) -> None:
    """From the runtime to the line: namespace, pod, container, id, event, cause."""
    with unannounced(server):
        _, container = running_container(server, "web-7")
    beside = Bystander(server)
    async with observing(server.socket) as observer:
        await observer.connected()
        await beside.acts(observer)
        server.runtime.outbox.drop_next(container, EventType.STOPPED)
        server.runtime.exit(container)
        await beside.judged(observer)
    (line,) = [line for line in log if line["event"] == "missed event"]
    assert line == {
        "event": "missed event",
        "log_level": "warning",
        "namespace": "shop",
        "pod": "web-7",
        "container": "app",
        "id": container,
        "_event": "ContainerDied",
        "object": "container",
        "cause": "silent",
    }
