"""The examples of configurations: Alertmanager and Prometheus load them, and do as is said."""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import promql_parser
import pytest_asyncio
import yaml
from aiohttp import web
from aiohttp.test_utils import unused_port

from alerts.entries import ALERTS as ENTRIES
from alerts.entries import INHIBITIONS, MANY, Inhibition, Level
from alerts.render import graded
from alerts.values import load
from testbed.fixtures import part, unavailable
from testbed.servers import LOOPBACK, prometheus, served, started
from testbed.waiting import until
from tests.support.commands import answered
from tests.support.expressions import ALERTS
from tests.support.rendering import variant

# Debian's Alertmanager reads its templates from /usr/share and from nowhere else: it is shown a
# /usr/share to which those of the package are added, in a mount namespace of its own.
_MOUNT = 'mount -t overlay overlay -o "lowerdir=$0:/usr/share" /usr/share && exec "$@"'
_NODE: Final = "node-7"
CONFIG = ALERTS / "alertmanager.yml"
ALERT = {alert.name: alert for alert in ENTRIES}
LEVELS = {alert.name: alert.level for alert in ENTRIES}
VALUES = load()
Labels = dict[str, str]


def severities(name: str) -> tuple[str, ...]:
    return tuple(graded(ALERT[name], VALUES).split(" or "))


@pytest_asyncio.fixture
async def alertmanager(tmp_path: Path) -> AsyncIterator[str]:
    binary = part("alertmanager").resolve()
    user = () if os.geteuid() == 0 else ("--map-root-user",)
    share = binary.parents[1] / "share"
    command = ("unshare", "--mount", *user, "sh", "-c", _MOUNT, share, binary)
    asks = [*command, "--version"]
    tried = await asyncio.to_thread(subprocess.run, asks, capture_output=True, text=True)
    if tried.returncode:
        unavailable(f"no mount namespace for Alertmanager's templates: {tried.stderr.strip()}")
    url = f"http://{LOOPBACK}:{unused_port()}"
    flags = (
        f"--config.file={CONFIG}",
        f"--storage.path={tmp_path / 'alertmanager'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--cluster.listen-address=",
    )
    async with started(tmp_path / "alertmanager.log", f"{url}/api/v2/status", *command, *flags):
        yield f"{url}/api/v2/alerts"


def test_nothing_of_lesser_weight_mutes_a_page() -> None:
    wrong = [
        (by, muted)
        for each in INHIBITIONS
        for by in each.by
        for muted in each.muted
        if "critical" in severities(muted) and {*severities(by)} != {"critical"} and not each.alike
    ]
    assert wrong == []


def labels_of(name: str, node: str, cluster: str) -> Labels:
    mine = {"alertname": name, "severity": severities(name)[0], "cluster": cluster}
    return mine | ({"node": node} if LEVELS[name] is Level.NODE else {})


def held_back(n: int, each: Inhibition, source: str) -> tuple[list[Labels], list[Labels]]:
    """In clusters of its own: `source` and what it holds back, and what not: the same elsewhere."""
    home = f"{source}-{n}"
    node, cluster = ("b", home) if each.same is Level.NODE else ("a", f"not {home}")
    mine = labels_of(source, "a", home)
    alike = {"severity": mine["severity"]} if each.alike else {}
    here = [labels_of(name, "a", home) | alike for name in each.muted]
    there = [labels_of(name, node, cluster) | alike for name in each.muted]
    there += [labels | {"severity": "another"} for labels in here if each.alike]
    return here, [mine, *there]


def many_have_it() -> tuple[list[Labels], list[Labels]]:
    """What many nodes have holds back that in its cluster, its symptoms, and nothing else."""
    many = {"alertname": MANY, "severity": "warning", "cluster": "blue"}
    here = [labels_of("ShadowPlegRelistStale", node, "blue") for node in "ab"]
    here.append(many | {"problem": "ShadowPlegStreamDown"})
    elsewhere = labels_of("ShadowPlegRelistStale", "a", "green")
    other = labels_of("ShadowPlegKubeletDiscards", "a", "blue")
    return here, [many | {"problem": "ShadowPlegRelistStale"}, elsewhere, other]


def alone() -> list[Labels]:
    """Each alert at each of its severities, where nothing else fires."""
    return [
        labels_of(name, "a", f"{name} alone, {severity}") | {"severity": severity}
        for name in sorted({*ALERT} - {MANY})
        for severity in severities(name)
    ]


async def test_what_fires_reaches_the_receiver_of_its_severity_and_holds_back_what_it_names(
    alertmanager: str,
) -> None:
    """What it names in one place only."""
    stories = [held_back(n, it, by) for n, it in enumerate(INHIBITIONS) for by in it.by]
    stories += [many_have_it(), ([], alone())]
    held: dict[str, bool] = {}

    async def holds_back() -> bool:
        async with session.get(alertmanager) as answer:
            for each in await answer.json():
                held[key(each["labels"])] = bool(each["status"]["inhibitedBy"])
                if (severity := each["labels"]["severity"]) != "another":
                    assert [it["name"] for it in each["receivers"]] == [severity], each
        return len(held) == len(sent) and all(held[key(it)] for here, _ in stories for it in here)

    sent = [labels for both in stories for part in both for labels in part]
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        await session.post(alertmanager, json=[{"labels": labels} for labels in sent])
        await until(holds_back, "all is held back that is to be", seconds=60)
    assert [labels for _, there in stories for labels in there if held[key(labels)]] == []


def key(labels: Labels) -> str:
    return str(sorted(labels.items()))


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
