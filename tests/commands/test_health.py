"""`shadow-pleg health`: asks a running process whether it is alive."""

import asyncio
import socket
import time
from dataclasses import replace

import pytest

from exporter.commands.health import healthy
from exporter.node.state import Node
from exporter.settings.config import Config
from exporter.settings.flags import ListenAddress
from testbed.servers import free_port
from tests.support.secured import ALICE, MTLS, TLS, WebFiles, users
from tests.support.web_pages import CONFIG, LOCAL, pages_of
from tests.web.test_app import probes_apart


def _at(url: str, config: Config = CONFIG) -> Config:
    port = int(url.rstrip("/").rsplit(":", 1)[1])
    return replace(config, web_listen_address=ListenAddress("", port))


async def _asked(
    config: Config, capsys: pytest.CaptureFixture[str], seconds: float = 2.0
) -> tuple[bool, str]:
    good = await asyncio.to_thread(healthy, config, seconds)
    return good, capsys.readouterr().out


async def test_one_whose_relists_ended_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    """The page's reason is passed on."""
    node = Node(relist_turned=time.monotonic() - 3600)
    async with pages_of(node) as url:
        good, said = await _asked(_at(url), capsys)
    assert not good
    assert said.startswith("no relist was begun for ")


async def test_a_port_without_a_listener_is_not_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    """One line names the address."""
    port = free_port()
    config = replace(CONFIG, web_listen_address=ListenAddress("", port))
    good, said = await _asked(config, capsys)
    assert not good
    assert said.startswith(f"no answer from :{port}: ")
    assert said.count("\n") == 1


async def test_a_listener_that_never_answers_is_not_healthy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A stopped process still has its listening socket."""
    with socket.create_server((LOCAL.host, 0)) as deaf:
        port = int(deaf.getsockname()[1])
        config = replace(CONFIG, web_listen_address=ListenAddress(LOCAL.host, port))
        good, said = await _asked(config, capsys, seconds=0.1)
    assert not good
    assert "timed out" in said


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


async def test_probes_of_their_own_are_asked_where_they_are(
    web_files: WebFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    """The probe address needs no client certificate."""
    async with probes_apart(web_files, MTLS) as (_, probes):
        config = replace(
            CONFIG,
            web_config_file=str(web_files.config),
            web_probe_address=_at(probes).web_listen_address,
        )
        assert await _asked(config, capsys) == (True, "ok\n")
