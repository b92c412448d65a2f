"""A real Prometheus, configured as the documentation says, against the example's configuration."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import yaml

from tests import ROOT
from tests.support.commands import fetch
from tests.support.real import servers
from tests.support.real.fixtures import part
from tests.support.secured import Papers, port_of
from tests.support.waiting import until

DOCS = ROOT / "docs"
NAME = "prometheus-k8s.monitoring.svc"


def scrape_config(papers: Papers, url: str) -> dict[str, Any]:
    """The documented one, with its files where the test has them."""
    page = (DOCS / "access-control.md").read_text(encoding="utf-8")
    [block] = [each for each in page.split("```yaml\n") if each.startswith("scrape_configs")]
    block = block.partition("```")[0].replace("/etc/prometheus/shadow-pleg", str(papers.folder))
    config: dict[str, Any] = yaml.safe_load(block.replace("_name: shadow-pleg", "_name: localhost"))
    [job] = config["scrape_configs"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{port_of(url)}"]}]
    config["global"] = {"scrape_interval": "200ms", "scrape_timeout": "200ms"}
    return config


@contextlib.asynccontextmanager
async def prometheus(papers: Papers, config: dict[str, Any]) -> AsyncIterator[str]:
    """A Prometheus of that configuration; gives its URL."""
    binary = part("prometheus")
    file = papers.folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    async with servers.prometheus((binary,), papers.folder, file) as url:
        yield url


async def _is_up(url: str) -> bool:
    try:
        answer = await fetch(f"{url}/api/v1/query?query=up{{job='localhost'}}")
    except OSError:
        return False
    return answer.status == 200 and ',"1"]' in answer.text


async def test_prometheus_scrapes_what_the_example_protects(papers: Papers) -> None:
    """TLS 1.3, a client certificate with an allowed name, a user and a password."""
    folder = papers.folder
    for ours, theirs in (("server.crt", "tls.crt"), ("server.key", "tls.key")):
        (folder / ours).rename(folder / theirs)
    leaf = papers.authority.issue_cert(NAME)
    leaf.private_key_pem.write_to_path(str(folder / "client.key"))
    leaf.cert_chain_pems[0].write_to_path(str(folder / "client.crt"))
    (folder / "password").write_text("change me")
    example = (DOCS / "web-config.example.yml").read_text(encoding="utf-8")
    async with (
        papers.served(example) as url,
        prometheus(papers, scrape_config(papers, url)) as at,
    ):
        await until(lambda: _is_up(at), "the target is up", seconds=30)
