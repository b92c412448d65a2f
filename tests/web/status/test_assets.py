"""The status page and its parts over HTTP: what a browser may do with them, and what they say."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest

from exporter.kubelet.state import (
    MEANINGS,
    Announces,
    Configuration,
    Gate,
    Kubelet,
    KubeletReading,
    Problem,
    terms_of,
)
from exporter.node.state import Node
from tests.support.commands import fetch
from tests.support.secured import Papers, knock
from tests.support.viewers import a_node
from tests.support.web_pages import CONFIG, LOCAL, face_of

pytestmark = pytest.mark.quick


async def test_the_policy_of_the_pages_is_strict() -> None:
    """No script and no style but ours, nothing from elsewhere, in nobody's frame."""
    async with face_of(a_node()) as url:
        answer = await fetch(url)
    policy = answer.headers["Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert not re.findall(r"<script(?! src=)|<style| style=| on[a-z]+=", answer.text)


async def test_a_policy_of_the_operator_comes_first(papers: Papers) -> None:
    """As the configuration file has it."""
    text = "http_server_config: {headers: {Content-Security-Policy: default-src 'self'}}\n"
    async with papers.served(text) as url:
        assert (await knock(url)).headers["Content-Security-Policy"] == "default-src 'self'"


async def test_parts_are_kept_by_a_browser_until_they_change() -> None:
    """Their address says what is in them; others are not there."""
    async with face_of(a_node()) as url:
        page = (await fetch(url)).text
        parts = re.findall(r'(?:src|href)="\./(static/[^"]+)"', page)
        assert len(parts) == 4
        for part in parts:
            assert re.fullmatch(r"static/[a-z.]+\?[0-9a-f]{12}", part)
            answer = await fetch(url + part)
            assert answer.status == 200
            assert "immutable" in answer.headers["Cache-Control"]
        for other in ("static/", "static/README.md", "static/../app.py", "static/%2e%2e/app.py"):
            assert (await fetch(url + other)).status == 404


async def test_what_the_kubelet_says_is_there_where_it_is_asked() -> None:
    """Its gate, how that fits the runtime, its own words; and why not, where it does not answer."""
    node = a_node()
    node.announces = Announces.OFF
    async with face_of(node) as url:
        assert "Kubelet" not in (await fetch(url)).text
    now = time.monotonic()
    node.kubelet = Kubelet(terms_of(30.0, 5.0))
    async with face_of(node) as url:
        node.kubelet.record(
            KubeletReading(now, Gate.ON, 1.0, "v1.36.2", discards=3.0), 1_700_000_000.0
        )
        page = (await fetch(url)).text
    assert "gate on" in page
    assert MEANINGS[Configuration.GATE_ONLY] in page
    assert "kubelet v1.36.2, its gate EventedPLEG is on, 3 lifecycle events discarded" in page
    node.kubelet = Kubelet(terms_of(30.0, 5.0))
    async with face_of(node) as url:
        node.kubelet.failed(Problem.FORBIDDEN, "the kubelet answers 403")
        page = (await fetch(url)).text
    assert "gate unknown" in page
    assert "the kubelet answers 403" in page


async def test_ages_are_those_of_the_load_though_nothing_else_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A page without scripts says how old the last relist is now."""
    monkeypatch.setattr("exporter.web.status.board.EVERY", 0.0)
    node = a_node()
    async with face_of(node) as url:
        assert ">0 s ago<" in (await fetch(url)).text
        assert node.relist_succeeded is not None
        node.relist_succeeded -= 60
        assert ">60 s ago<" in (await fetch(url)).text


async def test_probes_are_linked_where_they_are() -> None:
    """With an address of their own they are not here."""
    async with face_of(a_node()) as url:
        assert '<a href="./livez">' in (await fetch(url)).text
    async with face_of(a_node(), replace(CONFIG, web_probe_address=LOCAL)) as url:
        assert "/livez" not in (await fetch(url)).text


async def test_the_page_says_how_the_node_is() -> None:
    """What the probes say, in words."""
    dead = Node(relist_turned=time.monotonic() - 900, relist_note="ListPodSandbox: gone")
    async with face_of(dead, replace(CONFIG, node_name="n")) as url:
        page = (await fetch(url)).text
        assert "<b>not alive, not ready</b>" in page
        assert "<small>no relist was begun for 51 s</small>" in page
        assert "<small>no relist has succeeded for 180 s</small>" in page
        assert page.count("<small>ListPodSandbox: gone</small>") == 1
    async with face_of(a_node()) as url:
        assert "<b>alive, ready</b>" in (await fetch(url)).text
