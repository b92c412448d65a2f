"""The scrape configuration that the page shows, tried on an API's objects."""

import asyncio
import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import promql_parser
import yaml
from aiohttp import web

from alerts.values import load
from testbed.fixtures import part
from testbed.servers import prometheus, served
from tests.support.commands import answered
from tests.support.expressions import ALERTS
from tests.support.rendering import variant

_NODE: Final = "node-7"


def shown() -> Any:
    page = (ALERTS / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```yaml\n(scrape_configs:\n.*?)^```", page, re.MULTILINE | re.DOTALL)
    return yaml.safe_load(block)


def test_promtool_takes_the_scrape_configuration(promtool: Path, tmp_path: Path) -> None:
    """With what it says of authorization and TLS, which no API is there for below."""
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(shown()))
    said = subprocess.check_output([promtool, "check", "config", "--syntax-only", file], text=True)
    assert "is valid prometheus config file syntax" in said


async def test_the_targets_have_the_labels_that_rules_ask_for(tmp_path: Path) -> None:
    configuration = shown()
    file = tmp_path / "prometheus.yml"
    async with served(_api()) as api:
        for job in configuration["scrape_configs"]:
            job["kubernetes_sd_configs"][0]["api_server"] = api
            job["authorization"] = job["tls_config"] = {}
        file.write_text(yaml.safe_dump(configuration))
        async with prometheus((part("prometheus"),), tmp_path, file) as url:
            found = await _targets(url, len(configuration["scrape_configs"]))
    assert found == [
        ("http://127.0.0.7:13386/metrics", _labels("exporter", "127.0.0.7:13386")),
        ("https://127.0.0.8:10250/metrics", _labels("kubelet", _NODE)),
    ]


def _labels(role: str, instance: str) -> dict[str, str]:
    selector = promql_parser.parse(f"up{{{getattr(load().selectors, role)}}}")
    assert isinstance(selector, promql_parser.VectorSelector)
    named = {each.name: each.value for each in selector.matchers.matchers}
    return named | {load().labels.node: _NODE, "instance": instance}


async def _targets(url: str, number: int) -> list[tuple[str, dict[str, str]]]:
    page = await answered(
        f"{url}/api/v1/targets?state=active",
        lambda it: it.text.count('"scrapeUrl"') >= number,
        "Prometheus has found the targets",
    )
    active = json.loads(page.text)["data"]["activeTargets"]
    return sorted((each["scrapeUrl"], each["labels"]) for each in active)


def _api() -> web.Application:
    template = variant("kustomize/web-config").only("DaemonSet")["spec"]["template"]
    names = {"name": "shadow-pleg-x7k2p", "namespace": "shadow-pleg", "uid": "p"}
    pod = {
        "metadata": template["metadata"] | names,
        "spec": template["spec"] | {"nodeName": _NODE},
        "status": {"phase": "Running", "podIP": "127.0.0.7", "hostIP": "127.0.0.8"},
    }
    node = {
        "metadata": {"name": _NODE, "uid": "n"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.8"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    }
    application = web.Application()
    for path, kind, it in (("namespaces/shadow-pleg/pods", "Pod", pod), ("nodes", "Node", node)):
        application.router.add_get(f"/api/v1/{path}", _lists(kind, it))
    return application


def _lists(kind: str, item: dict[str, Any]) -> Any:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.query.get("watch"):
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.Event().wait()
        metadata = {"resourceVersion": "1"}
        return web.json_response(
            {"kind": f"{kind}List", "apiVersion": "v1", "metadata": metadata, "items": [item]}
        )

    return answer
