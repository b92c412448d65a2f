"""The status page over HTTP: what it shows, and what a browser may do with it."""

import re
import time
from dataclasses import replace

import pytest
import yaml

from exporter import __version__
from exporter.kubelet.state import MEANINGS, Kubelet, KubeletReading
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import Announces, Configuration, Gate, Problem, StreamKind, StreamState
from exporter.node.state import Node, RuntimeInfo
from exporter.settings.config import Config
from tests import ROOT
from tests.support.commands import fetch
from tests.support.facts import found
from tests.support.web_pages import CONFIG, pages_in_virtual_time, streaming_node, web_app

pytestmark = pytest.mark.virtual_time

HOSTILE = "<script>alert('x')</script>\"&"
ESCAPED = "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&#34;&amp;"


async def page_of(node: Node, config: Config = CONFIG) -> str:
    """The status page."""
    async with pages_in_virtual_time(web_app(node, config)) as url:
        answer = await fetch(url)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    return answer.text


async def test_the_policy_is_strict() -> None:
    """Only the page's own script and style, nothing external, in no frame."""
    async with pages_in_virtual_time() as url:
        answer = await fetch(url)
    policy = answer.headers["Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    own = dict.fromkeys(("script-src", "style-src", "img-src", "connect-src"), "'self'")
    none = ("default-src", "base-uri", "form-action", "frame-ancestors")
    assert rules == {**own, **dict.fromkeys(none, "'none'")}
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    example = yaml.safe_load((ROOT / "docs" / "web-config.example.yml").read_text("utf-8"))
    assert policy == example["http_server_config"]["headers"]["Content-Security-Policy"]
    assert not re.findall(r"<script(?! src=)|<style| style=| on[a-z]+=", answer.text)


async def test_it_is_about_this_node_and_asks_for_itself_again() -> None:
    """The verdict, the runtime, what was counted; and when that was."""
    node = streaming_node()
    node.runtime = RuntimeInfo("containerd", "2.1.9", "v1", StreamKind.BROADCAST)
    node.relist_turned = time.monotonic()
    for finding in (found(Verdict.MISSED, Cause.SILENT), *[found(Verdict.WITNESSED)] * 2):
        node.tally.add(finding, 0.0)
    node.tally.add(found(Verdict.EXIT_ANNOUNCED)._replace(seconds=0.5), 0.0)
    text = await page_of(node)
    for said in (
        f"shadow-pleg {__version__}",
        "node node-7",
        '<noscript><meta http-equiv="refresh" content="10"></noscript>',
        '<div class="headline good">',
        "<b>containerd 2.1.9</b>",
        "<b>streaming</b>",
        "<b>0 s ago</b>",
        "<b>alive, ready</b>",
        "<b>announced after 0.500 s</b>",
        '<th scope="row">silent</th><td class="n">1</td>',
        '<th scope="row">witnessed</th><td class="n">2</td>',
        '<th scope="row">late</th><td class="n hint">0</td>',
    ):
        assert said in text, said
    assert text.count("<h1>") == 1
    assert '<div class="headline bad">' in await page_of(replace(node, relist_note="gone"))


async def test_what_is_not_known_yet_is_said_so() -> None:
    """No empty card."""
    text = await page_of(Node())
    for said in ("not reached yet", "none succeeded yet", "none announced yet", "0 pods"):
        assert said in text, said


async def test_it_says_why_the_process_is_not_alive_and_not_ready() -> None:
    """What the probes say, in words."""
    dead = Node(relist_turned=time.monotonic() - 900, relist_note="ListPodSandbox: gone")
    page = await page_of(dead)
    assert "<b>not alive, not ready</b>" in page
    assert "<small>no relist was begun for 51 s</small>" in page
    assert page.count("<small>ListPodSandbox: gone</small>") == 1


async def test_it_shows_what_the_kubelet_says() -> None:
    """Its gate, how that fits the runtime, its own words, the issues known; or why it is silent."""
    node = streaming_node()
    node.runtime = RuntimeInfo("containerd", "2.0.1", "v1", StreamKind.BROADCAST)
    node.announces = Announces.OFF
    page = await page_of(node)
    assert "Kubelet" not in page
    assert "Known issues" not in page
    node.kubelet = Kubelet(30.0)
    reading = KubeletReading(time.monotonic(), Gate.ON, "v1.31.0", discards=3.0)
    node.kubelet.record(reading, 1_700_000_000.0)
    page = await page_of(node)
    assert "gate on" in page
    assert MEANINGS[Configuration.GATE_ONLY] in page
    assert "kubelet v1.31.0, its gate EventedPLEG is on, 3 lifecycle events discarded" in page
    assert ">k/k#123087</a>" in page
    node.kubelet = Kubelet(30.0)
    node.kubelet.failed(Problem.FORBIDDEN, "the kubelet answers 403")
    page = await page_of(node)
    assert "gate unknown" in page
    assert "the kubelet answers 403" in page


async def test_what_a_runtime_says_is_text_and_never_markup() -> None:
    """A runtime's name, an error's text, a node's name: shown as they are."""
    node = replace(
        streaming_node(),
        stream=StreamState.BACKOFF,
        runtime=RuntimeInfo(HOSTILE, HOSTILE, HOSTILE, StreamKind.BROADCAST),
        stream_note=HOSTILE,
        relist_note=HOSTILE,
    )
    page = await page_of(node, replace(CONFIG, node_name=HOSTILE))
    assert page.count("<script") == 1
    # Title, header, runtime twice, stream's note, relist's note.
    assert page.count(ESCAPED) == 6
