"""`health` and `condition`: what a running process is asked, and the exit codes."""

import asyncio
import os
import socket
import time
from dataclasses import replace

import pytest
from aiohttp.test_utils import unused_port

from exporter.commands.health import healthy
from exporter.conditions.condition import NodeCondition
from exporter.model.facts import StreamUp
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import KernelWitness
from exporter.settings.config import Config
from exporter.settings.flags import ListenAddress
from exporter.settings.routes import MOST_CHARACTERS
from tests.support.commands import Running
from tests.support.facts import found
from tests.support.peers import answered_by, answering, http_peer
from tests.support.runtimes import ScriptedServer
from tests.support.stage import Stage
from tests.support.web import ALICE, CONFIG, LOCAL, MTLS, TLS, WebFiles, pages_of, port_of, users
from tests.web.test_app import probes_apart

EVENTS, STALE = NodeCondition
STATE_OK = "the runtime lists as running only what runs"


def _at(url: str, config: Config = CONFIG) -> Config:
    return replace(config, web_listen_address=ListenAddress("", port_of(url)))


def watched() -> Stage:
    """One whose kernel shows its containers, too, and which is up to date for an hour."""
    stage = Stage.streaming(relist_succeeded=time.monotonic() + 3600)
    stage.node.kernel.state = KernelWitness.WATCHING
    return stage


async def _asked(
    config: Config, capsys: pytest.CaptureFixture[str], seconds: float = 2.0
) -> tuple[bool, str]:
    good = await asyncio.to_thread(healthy, config, seconds)
    return good, capsys.readouterr().out


async def test_a_serve_whose_relists_ended_is_not_alive(capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage(relist_begun=time.monotonic() - 3600)
    async with pages_of(stage) as url:
        good, said = await _asked(_at(url), capsys)
    assert not good
    assert said.startswith("no relist was begun for ")


@pytest.mark.parametrize(("listens", "why"), [(False, "no answer from :"), (True, "timed out")])
async def test_a_port_that_does_not_answer_is_not_healthy(
    capsys: pytest.CaptureFixture[str], *, listens: bool, why: str
) -> None:
    """One line; a stopped process still has its listening socket."""
    with socket.create_server((LOCAL.host, 0)) as deaf:
        port = int(deaf.getsockname()[1]) if listens else unused_port()
        config = replace(CONFIG, web_listen_address=ListenAddress("", port))
        good, said = await _asked(config, capsys, seconds=0.1)
    assert (good, said.count("\n")) == (False, 1)
    assert why in said


@pytest.mark.parametrize(
    "text", [None, users(ALICE), TLS + users(ALICE)], ids=["no file", "users", "TLS"]
)
async def test_a_living_process_is_healthy(
    web_files: WebFiles, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    """It is asked on the loopback address; its certificate is not verified, as by the kubelet."""
    config = CONFIG
    if text is not None:
        web_files.write(text)
        config = replace(CONFIG, web_config_file=str(web_files.config))
    async with pages_of(config=config) as url:
        assert url.startswith("https" if text and TLS in text else "http:")
        assert await _asked(_at(url, config), capsys) == (True, "ok\n")


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("first", "then", "every"),
    [
        (HEAD + b"\r\n", b"x" * 65536, 0.0),
        (HEAD + b"\r\n", b"x" * 5000 + b"\n", 0.0),
        (HEAD + b"\r\n", b"x", 0.02),
        (HEAD, b"x: y\r\n", 0.02),
        (b"", b"x", 0.02),
        # The beginning of a record of TLS.
        (b"\x16\x03\x03\x3f\xff", b"x", 0.02),
    ],
    ids=["one line", "lines", "byte by byte", "headers", "status line", "handshake"],
)
async def test_an_answer_without_end_is_left(
    capsys: pytest.CaptureFixture[str], first: bytes, then: bytes, every: float
) -> None:
    async with http_peer(first, (then, every)) as url:
        # Only the name of the file counts: its port speaks TLS.
        config = replace(CONFIG, web_config_file="" if first[:1] in b"H" else "web.yml")
        _, said = await _asked(_at(url, config), capsys, seconds=0.5)
    assert said.count("\n") == 1
    assert len(said) < 5000


async def test_another_server_is_not_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    """Nor a `serve` whose probes have an address of their own."""
    async with answered_by(answering(status=404, text="<!DOCTYPE HTML>\n")) as url:
        said = f"HTTP 404 from :{port_of(url)}: name the port of serve's probes"
        assert await _asked(_at(url), capsys) == (False, f"{said}\n")
        assert await _condition(port_of(url), EVENTS) == (2, said.replace(" :", " 127.0.0.1:"))


async def test_what_is_answered_controls_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    body = "ok \x1b[31m\x1b]0;own\x07 \x9b2J\r\u202e\nok   forged line\n".encode()
    async with http_peer(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body) as url:
        _, said = await _asked(_at(url), capsys)
        conditions = [await _condition(port_of(url), each) for each in NodeCondition]
    assert said.count("\n") == 1
    for line in (said, *(text for _, text in conditions)):
        assert line.strip("\n").isprintable()
        assert line.startswith("ok \\x1b[31m")


async def test_probes_of_their_own_are_asked_where_they_are(
    web_files: WebFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    """The probe address needs no client certificate."""
    async with probes_apart(web_files, MTLS) as (_, probes):
        file, address = str(web_files.config), _at(probes).web_listen_address
        config = replace(CONFIG, web_config_file=file, web_probe_address=address)
        assert await _asked(config, capsys) == (True, "ok\n")


async def _condition(port: int, condition: NodeCondition, *flags: str) -> tuple[int, str]:
    address = f"--web.listen-address=127.0.0.1:{port}"
    async with Running("condition", condition.value, address, *flags) as process:
        ended = await process.ended()
    assert ended.err == ""
    assert ended.out.count("\n") == 1
    assert len(ended.out) <= MOST_CHARACTERS + 1
    return ended.code, ended.out.strip()


async def test_no_problem_is_0_and_needs_no_password(web_files: WebFiles) -> None:
    web_files.write(TLS + users(ALICE))
    config = replace(CONFIG, web_config_file=str(web_files.config))
    async with pages_of(watched(), config) as url:
        code, line = await _condition(port_of(url), EVENTS, web_files.flag)
        assert (code, line) == (0, "watching, nothing has happened")
        code, line = await _condition(port_of(url), STALE, web_files.flag)
        assert (code, line) == (0, STATE_OK)


async def test_an_answer_that_cannot_be_written_is_2() -> None:
    """Not 1: that would be a problem of the node."""
    async with pages_of(watched()) as url:
        flags = (EVENTS.value, f"--web.listen-address=127.0.0.1:{port_of(url)}")
        full = os.open("/dev/full", os.O_WRONLY)
        # Buffered, as by default, a text is written late.
        async with Running("condition", *flags, output=full, PYTHONUNBUFFERED="") as process:
            os.close(full)
            assert (await process.ended()).code == 2


async def test_a_problem_is_1_and_check_says_it_too(server: ScriptedServer) -> None:
    lost = "12 of 20 lifecycle events (60 %) were lost in the last minute"
    flags = (f"--runtime-endpoint=unix://{server.socket}", "--kernel-witness=never")

    async def checked(port: int) -> str:
        at = f"127.0.0.1:{port}"
        async with Running("check", *flags, SHADOW_PLEG_WEB_LISTEN_ADDRESS=at) as process:
            return (await process.ended()).out

    stage = watched()
    exits = (found(Verdict.WITNESSED),) * 20 + (found(Verdict.MISSED, Cause.SILENT),) * 12
    stage.hear(StreamUp(time.monotonic(), 0.0), found=exits)
    async with pages_of(stage) as url:
        assert await _condition(port_of(url), EVENTS) == (1, lost)
        own = f", by the exporter on port {port_of(url)}: "
        said = [line for line in (await checked(port_of(url))).splitlines() if own in line]
        assert said == [
            f"note verdict  ContainerEventsIncomplete{own}{lost}",
            f"ok   verdict  ContainerRuntimeStateStale{own}{STATE_OK}",
        ]
    assert "verdict" not in await checked(unused_port())
    # A stopped process still has its listening socket.
    with socket.create_server((LOCAL.host, 0)) as deaf:
        port = int(deaf.getsockname()[1])
        hangs = f"note verdict  what listens on port {port} does not answer: if it is serve, it"
        assert f"{hangs} hangs\n" in await checked(port)


async def test_what_is_not_known_is_2() -> None:
    """Relists fail, nothing answers, or it cannot be asked: no problem of the node, never 1."""
    async with pages_of(Stage.streaming(relist_succeeded=time.monotonic() - 3600)) as url:
        answer = await _condition(port_of(url), EVENTS)
    assert answer == (2, "not known: the runtime does not answer")
    for port, why in (
        (unused_port(), "no answer from 127.0.0.1:"),
        (99999, "not known: --web.listen-address: "),
    ):
        code, line = await _condition(port, STALE)
        assert (code, line.startswith(why)) == (2, True)
