"""A real Prometheus, configured as the documentation says, against the example's configuration."""

from typing import Any

import yaml

from testbed import servers
from testbed.fixtures import part
from testbed.waiting import until
from tests import ROOT
from tests.support.commands import fetch
from tests.support.secured import WebFiles
from tests.support.web_clients import port_of

DOCS = ROOT / "docs"
NAME = "prometheus-k8s.monitoring.svc"


def scrape_config(files: WebFiles, url: str) -> dict[str, Any]:
    """The documented one, with its files where the test has them."""
    page = (DOCS / "access-control.md").read_text(encoding="utf-8")
    [block] = [each for each in page.split("```yaml\n") if each.startswith("scrape_configs")]
    block = block.partition("```")[0].replace("/etc/prometheus/shadow-pleg", str(files.folder))
    config: dict[str, Any] = yaml.safe_load(block.replace("_name: shadow-pleg", "_name: localhost"))
    [job] = config["scrape_configs"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{port_of(url)}"]}]
    config["global"] = {"scrape_interval": "200ms", "scrape_timeout": "200ms"}
    return config


async def test_prometheus_scrapes_what_the_example_protects(web_files: WebFiles) -> None:
    """TLS 1.3, a client certificate with an allowed name, a user and a password."""
    web_files.name_as_in_the_example()
    web_files.certify("client", NAME)
    (web_files.folder / "password").write_text("change me")
    file = web_files.folder / "prometheus.yml"
    example = (DOCS / "web-config.example.yml").read_text(encoding="utf-8")
    async with web_files.served(example) as url:
        file.write_text(yaml.safe_dump(scrape_config(web_files, url)))
        async with servers.prometheus((part("prometheus"),), web_files.folder, file) as at:

            async def is_up() -> bool:
                try:
                    answer = await fetch(f"{at}/api/v1/query?query=up{{job='localhost'}}")
                except OSError:
                    return False
                return answer.status == 200 and ',"1"]' in answer.text

            await until(is_up, "the target is up", seconds=30)
