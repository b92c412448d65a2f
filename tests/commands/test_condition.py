"""`shadow-pleg condition`: the protocol of node-problem-detector's custom plugins."""

import time
from dataclasses import replace

import pytest

from exporter.model.events import Lifecycle, ObjectKind
from exporter.model.facts import StreamUp
from exporter.model.findings import Cause, Finding, Outcome, Verdict
from exporter.model.labels import KernelWitness
from exporter.node.history import History
from exporter.node.state import Node
from exporter.settings.routes import MOST_CHARACTERS, Condition
from testbed.servers import free_port
from tests.support.commands import running
from tests.support.scripted_runtime import ScriptedServer
from tests.support.secured import ALICE, TLS, WebFiles, users
from tests.support.web_pages import CONFIG, pages_of, streaming_node


async def _asked(url: str, condition: Condition, *flags: str) -> tuple[int, str]:
    """The exit code of the plugin, and its one line; it writes nothing else."""
    port = url.rstrip("/").rsplit(":", 1)[1]
    address = f"--web.listen-address=127.0.0.1:{port}"
    async with running("condition", condition.value, address, *flags) as process:
        ended = await process.ended()
    assert ended.err == ""
    assert ended.out.count("\n") == 1
    assert len(ended.out) <= MOST_CHARACTERS + 1
    return ended.code, ended.out.strip()


def losing(node: Node, number: int) -> History:
    """So many silent losses just now."""
    history = History(node)
    finding = Finding(
        Verdict.MISSED, Lifecycle.DIED, ObjectKind.CONTAINER, "c1", cause=Cause.SILENT
    )
    witnessed = finding._replace(verdict=Verdict.WITNESSED, cause=None)
    history.took(StreamUp(time.monotonic(), 0), Outcome((witnessed,) * 20 + (finding,) * number))
    return history


def _node(**others: object) -> Node:
    node = streaming_node()
    node.kernel = KernelWitness.WATCHING
    for name, value in others.items():
        setattr(node, name, value)
    return node


@pytest.mark.parametrize("condition", Condition)
async def test_no_problem_is_0(condition: Condition) -> None:
    """With a line that says what is well."""
    async with pages_of(_node()) as url:
        code, line = await _asked(url, condition)
    assert code == 0
    assert line.startswith(("the runtime lists", "watching"))


@pytest.mark.parametrize("condition", Condition)
async def test_what_is_not_known_is_2(condition: Condition) -> None:
    """An exporter whose relists fail knows nothing."""
    async with pages_of(_node(relist_succeeded=time.monotonic() - 3600)) as url:
        told = await _asked(url, condition)
    assert told == (2, "not known: the runtime does not answer")


async def test_a_problem_is_1() -> None:
    """With a line that says how much of it."""
    node = _node()
    async with pages_of(node, history=losing(node, 12)) as url:
        told = await _asked(url, Condition.EVENTS_INCOMPLETE)
    assert told == (1, "the event stream loses events: 12 of 20 lost")


async def test_without_an_exporter_it_is_not_known() -> None:
    """Nobody answers: that is no problem of the runtime."""
    url = f"http://127.0.0.1:{free_port()}/"
    code, line = await _asked(url, Condition.STATE_STALE)
    assert code == 2
    assert line.startswith("no answer from 127.0.0.1:")


async def test_a_configuration_that_cannot_be_used_is_no_problem_of_the_node() -> None:
    """Whatever fails here is not known, never 1."""
    code, line = await _asked("http://127.0.0.1:99999/", Condition.STATE_STALE)
    assert code == 2
    assert line.startswith("not known: --web.listen-address: ")


async def test_it_needs_no_password(web_files: WebFiles) -> None:
    """The answers name no pod; with TLS, they are asked for by TLS."""
    web_files.write(TLS + users(ALICE))
    config = replace(CONFIG, web_config_file=str(web_files.config))
    async with pages_of(_node(), config) as url:
        flag = f"--web.config.file={web_files.config}"
        code, _ = await _asked(url, Condition.EVENTS_INCOMPLETE, flag)
    assert code == 0


def test_the_conditions_have_these_names_and_pages() -> None:
    """Configurations of node-problem-detector, and of probes, name them."""
    assert {each.value: each.path for each in Condition} == {
        "ContainerEventsIncomplete": "/condition/ContainerEventsIncomplete",
        "ContainerRuntimeStateStale": "/condition/ContainerRuntimeStateStale",
    }


async def test_check_has_the_verdict_of_the_exporter_that_runs(
    server: ScriptedServer,
) -> None:
    """The same words as the condition; and none where no exporter answers."""
    node = _node()
    async with pages_of(node, history=losing(node, 12)) as url:
        port = url.rstrip("/").rsplit(":", 1)[1]
        flags = (f"--runtime-endpoint=unix://{server.socket}", "--kernel-witness=never")
        serves = {"SHADOW_PLEG_WEB_LISTEN_ADDRESS": f"127.0.0.1:{port}"}
        async with running("check", *flags, **serves) as process:
            said = (await process.ended()).out
    verdict = "note verdict  the running exporter: the event stream loses events: 12 of 20 lost"
    assert verdict in said
    nothing = {"SHADOW_PLEG_WEB_LISTEN_ADDRESS": f"127.0.0.1:{free_port()}"}
    async with running("check", *flags, **nothing) as process:
        assert "verdict" not in (await process.ended()).out
