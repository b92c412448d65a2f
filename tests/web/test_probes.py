"""Where the probes are: with everything else, or on an address of their own."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from exporter.errors import ConfigError
from exporter.node.state import Node
from exporter.settings.flags import ListenAddress
from tests.support.real.servers import free_port
from tests.support.secured import MTLS, Papers, knock, users
from tests.support.web_pages import CONFIG, LOCAL, face_of

pytestmark = pytest.mark.quick


@contextlib.asynccontextmanager
async def apart(papers: Papers, text: str) -> AsyncIterator[tuple[str, str]]:
    """A face under that configuration, and the URL of its probes."""
    papers.write(text)
    probing = ListenAddress(LOCAL.host, free_port())
    config = replace(CONFIG, web_config_file=str(papers.config), web_probe_address=probing)
    async with face_of(Node(), config) as url:
        yield url, f"http://{probing}/"


async def test_probes_have_an_address_without_certificates_and_users(papers: Papers) -> None:
    """The kubelet has neither."""
    async with apart(papers, MTLS + users(alice="open")) as (url, probes):
        assert (await knock(probes + "livez")).text == "ok\n"
        assert (await knock(probes + "readyz")).status == 503
        assert (await knock(url + "metrics", papers.client("x"), ("alice", "open"))).status == 200


@pytest.mark.parametrize("path", ["", "metrics", "livez/x"])
async def test_nothing_else_is_there(papers: Papers, path: str) -> None:
    """No page by the back door."""
    async with apart(papers, users(alice="open")) as (_, probes):
        assert (await knock(probes + path)).status == 404


@pytest.mark.parametrize("path", ["livez", "readyz"])
async def test_probes_that_moved_are_gone_from_the_front(papers: Papers, path: str) -> None:
    """One place to look."""
    async with apart(papers, "") as (url, _):
        assert (await knock(url + path)).status == 404


async def test_an_address_in_use_is_told_of_by_its_own_flag() -> None:
    """And the other address is free again."""
    with socket.create_server((LOCAL.host, 0)) as taken:
        probing = ListenAddress(LOCAL.host, taken.getsockname()[1])
        said = f"--web.probe-address: {probing} is in use by another process"
        with pytest.raises(ConfigError, match=re.escape(said)):
            async with face_of(Node(), replace(CONFIG, web_probe_address=probing)):
                pass


async def test_both_addresses_are_free_again_at_once(papers: Papers) -> None:
    """A restarted exporter finds its ports."""
    async with apart(papers, "") as (url, probes):
        ports = [int(each.rsplit(":", 1)[1].strip("/")) for each in (url, probes)]
    for port in ports:
        socket.create_server((LOCAL.host, port)).close()
