"""The status page over HTTP: what it shows, and what a browser may do with it."""

import asyncio
import re
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import yaml

from exporter import __version__
from exporter.kubelet.state import (
    MEANINGS,
    Announces,
    Configuration,
    Gate,
    Kubelet,
    KubeletReading,
    Problem,
)
from exporter.node.state import Node, RuntimeInfo, StreamState
from exporter.pleg.events import Listed, ListedState, ObjectKind, Pod
from exporter.pleg.profiles import StreamKind
from exporter.settings.config import Config
from exporter.web import pages, rendering
from exporter.web.status.view import InjectedLosses
from tests import ROOT
from tests.support.commands import fetch
from tests.support.html_pages import Page, colours, contrast
from tests.support.web_pages import CONFIG, pages_in_virtual_time, streaming_node

pytestmark = pytest.mark.virtual_time

HOSTILE = "<script>alert('x')</script>\"&"


async def page_of(
    node: Node, config: Config = CONFIG, injected: tuple[InjectedLosses, ...] = ()
) -> str:
    """The status page."""
    async with pages_in_virtual_time(node, config, injected=injected) as url:
        answer = await fetch(url)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    return answer.text


def rows_of(page: Page) -> list[list[str]]:
    """The cells of all tables."""
    return [[cell.text for cell in row.below if cell.tag in ("td", "th")] for row in page.all("tr")]


async def test_the_policy_is_strict() -> None:
    """Only the page's own scripts and styles, nothing external, in no frame."""
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


async def test_parts_are_cached_until_they_change() -> None:
    """Their address contains a digest; other files are not served."""
    async with pages_in_virtual_time() as url:
        parts = re.findall(r'(?:src|href)="\./(static/[^"]+)"', (await fetch(url)).text)
        assert len(parts) == 4
        for part in parts:
            assert re.fullmatch(r"static/[a-z.]+\?[0-9a-f]{12}", part)
            answer = await fetch(url + part)
            assert answer.status == 200
            assert "immutable" in answer.headers["Cache-Control"]
        for other in ("static/", "static/README.md", "static/../app.py", "static/%2e%2e/app.py"):
            assert (await fetch(url + other)).status == 404


@pytest.mark.quick
def test_the_drawing_can_be_read_in_both_schemes() -> None:
    """By WCAG's AA, 4.5:1 for letters and 3:1 for shapes; axe knows no SVG."""
    css = (Path(rendering.__file__).parent / "static" / "page.css").read_text(encoding="utf-8")
    decoration = {"line", "band"}
    inks = set(re.findall(r"(?:fill|stroke): var\(--(\w+)\)", css)) - decoration
    assert inks == {"soft", "relist", "stream", "kernel", "bad", "unsure"}
    for scheme, ink, ground in product(colours(css), inks, ("paper", "card")):
        least = 4.5 if ink == "soft" else 3
        assert contrast(scheme[ink], scheme[ground]) >= least, (ink, ground, scheme)


async def test_it_shows_node_runtime_stream_and_relist() -> None:
    """With a headline whose colour says the same as its words, and nothing that was injected."""
    pods = (Pod(uid=f"u-{number % 3}") for number in range(4))
    sandboxes = [Listed("", ObjectKind.SANDBOX, ListedState.RUNNING, pod=pod) for pod in pods]
    containers = [Listed("", ObjectKind.CONTAINER, ListedState.EXITED)] * 5
    node = replace(
        streaming_node(),
        runtime=RuntimeInfo("containerd", "2.1.9", "v1", StreamKind.BROADCAST),
        listed={str(n): item for n, item in enumerate((*sandboxes, *containers))},
    )
    text = await page_of(node)
    for said in (
        *(f"shadow-pleg {__version__}", "node node-7", "containerd 2.1.9", "streaming", "0 s ago"),
        *("3 pods, 4 sandboxes, 5 containers", '<div class="headline good">', '"./livez"'),
        "<b>alive, ready</b>",
    ):
        assert said in text
    assert text.count("<h1>") == 1
    assert "Injected" not in text
    assert '<div class="headline bad">' in await page_of(replace(node, relist_note="gone"))
    assert '<div class="headline unsure">' in await page_of(Node())


async def test_it_says_why_the_process_is_not_alive_and_not_ready() -> None:
    """What the probes say, in words."""
    dead = Node(relist_turned=time.monotonic() - 900, relist_note="ListPodSandbox: gone")
    page = await page_of(dead)
    assert "<b>not alive, not ready</b>" in page
    assert "<small>no relist was begun for 51 s</small>" in page
    assert "<small>no relist has succeeded for 180 s</small>" in page
    assert page.count("<small>ListPodSandbox: gone</small>") == 1


async def test_it_shows_what_the_kubelet_says() -> None:
    """Its gate, how that fits the runtime, its own words; and why it is not known."""
    node = streaming_node()
    node.announces = Announces.OFF
    assert "Kubelet" not in await page_of(node)
    node.kubelet = Kubelet(30.0)
    reading = KubeletReading(time.monotonic(), Gate.ON, 1.0, "v1.36.2", discards=3.0)
    node.kubelet.record(reading, 1_700_000_000.0)
    page = await page_of(node)
    assert "gate on" in page
    assert MEANINGS[Configuration.GATE_ONLY] in page
    assert "kubelet v1.36.2, its gate EventedPLEG is on, 3 lifecycle events discarded" in page
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
    injected = InjectedLosses(HOSTILE, 1, 0)
    config = replace(CONFIG, node_name=HOSTILE)
    page = Page(await page_of(node, config, (injected,)))
    # The product's own, which are files.
    assert len(page.all("script")) == 2
    # Title, header, runtime twice, stream's note, relist's note, comparison.
    assert page.all("html")[0].text.count(HOSTILE) == 7


async def test_injected_losses_that_were_not_counted_are_marked() -> None:
    """The demo's proof: what was lost on purpose next to what was counted."""
    injected = (InjectedLosses("died", 2, 2), InjectedLosses("all", 5, 3))
    page = Page(await page_of(streaming_node(), injected=injected))
    assert ["died", "2", "2", "equal"] in rows_of(page)
    assert ["all", "5", "3", "2 not judged yet"] in rows_of(page)
    assert [row.attributes.get("class") for row in page.all("tr")].count("differs") == 1


async def test_injected_losses_are_not_compared_while_nothing_watches_the_stream() -> None:
    """What nobody subscribes to cannot be counted, and will not settle."""
    node = replace(streaming_node(), stream=StreamState.REFUSED)
    page = Page(await page_of(node, injected=(InjectedLosses("all", 5, 0),)))
    assert ["all", "5", "0", "not watched"] in rows_of(page)
    assert (
        "Nothing is counted while the exporter does not watch the event stream."
        in page.all("html")[0].text
    )
    assert "differs" not in [row.attributes.get("class") for row in page.all("tr")]


async def test_it_is_rendered_once_a_second_however_many_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The frame of the page, too."""
    made: list[str] = []

    def making(html: str) -> pages.Page:
        made.append(html)
        return rendering.html_page(html)

    monkeypatch.setattr("exporter.web.status.page.html_page", making)
    async with pages_in_virtual_time(streaming_node()) as url:
        for _ in range(5):
            await asyncio.gather(*(fetch(url) for _ in range(10)))
            await asyncio.sleep(1)
    assert len(made) == 5


async def test_ages_are_those_of_the_load_though_nothing_else_changed() -> None:
    """A page without scripts says how old the last relist is now."""
    async with pages_in_virtual_time(streaming_node()) as url:
        assert ">0 s ago<" in (await fetch(url)).text
        await asyncio.sleep(5)
        assert ">5 s ago<" in (await fetch(url)).text
