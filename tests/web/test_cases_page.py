"""`/debug/misses`: evidence as JSON and as a page, escaped, bounded, and cheap."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from exporter import RUNBOOKS
from exporter.evidence.cases import KEPT_BYTES
from exporter.model.events import Pod
from exporter.model.facts import ProfileChosen, StreamDown
from exporter.model.labels import StreamKind, StreamState
from exporter.node.state import RuntimeInfo
from tests.support.commands import Answer, fetch
from tests.support.facts import READY, RUNNING, began, facts_of, killed, relist, relists
from tests.support.stage import Stage
from tests.support.web import CONFIG, pages_of

pytestmark = pytest.mark.quick

HTML = "text/html,application/xhtml+xml,*/*;q=0.8"
LINK = re.compile(r"(?:src|href)=\"([^\"]+)")
EVIL = "<script>alert('1')</script>\"&\x1b[2J\x9b\u202e\ud800"
ESCAPED = "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&#34;&amp;\\x1b[2J\\x9b\\u202e\\ud800"


async def ask(stage: Stage, query: str = "", **headers: Any) -> Answer:
    async with pages_of(stage) as url:
        return await fetch(f"{url}debug/misses{query}", **headers)


def lossy(number: int = 3) -> Stage:
    stage = Stage.watching()
    stage.lose(number)
    return stage


@pytest.mark.parametrize(
    ("query", "accept", "kind"),
    [
        ("", "*/*", "application/json"),
        ("", "application/json", "application/json"),
        ("", HTML, "text/html"),
        ("?format=json", HTML, "application/json"),
        ("?format=html", "application/json", "text/html"),
    ],
)
async def test_a_browser_gets_a_page_and_everybody_else_json(
    query: str, accept: str, kind: str
) -> None:
    """By Accept, unless the address says which."""
    answer = await ask(lossy(), query, Accept=accept)
    assert answer.status == 200
    assert answer.headers["Content-Type"].split(";")[0] == kind
    assert answer.headers["Vary"] == "Accept, Accept-Encoding"


async def test_an_unknown_format_is_refused() -> None:
    answer = await ask(lossy(), "?format=xml")
    assert (answer.status, answer.text) == (400, "format: give json or html\n")


async def test_json_has_the_newest_first_and_what_is_missing() -> None:
    stage = lossy(25)
    document = json.loads((await ask(stage)).text)
    assert document["made"] == 20
    assert document["dropped"] == 5
    assert [record["number"] for record in document["records"]] == list(range(20, 0, -1))
    assert document["records"] == stage.records[::-1]


async def test_the_page_tells_the_whole_case() -> None:
    text = (await ask(lossy(1), "?format=html")).text
    assert "ContainerStarted: missed, silent" in text
    for words in (
        'id="record-1"',
        "no STARTED came within the grace of 5 s",
        "silent: lost by the runtime or on its way",
        "listed running",
        "the runtime is containerd 2.1.9",
        "node-7",
    ):
        assert words in text, words
    # It works on a node without internet, and below the path of a proxy.
    assert all(each[0] in ".?#" for each in LINK.findall(text))


async def test_whatever_a_runtime_sends_is_text_on_the_page() -> None:
    """No markup and no escape of a terminal gets through, from names, versions or errors."""
    stage = Stage.watching()
    node, config = stage.node, replace(CONFIG, node_name=EVIL)
    node.runtime = RuntimeInfo(EVIL, EVIL, EVIL, StreamKind.BROADCAST)
    node.stream.become(StreamState.BACKOFF, EVIL)
    node.relist_note = EVIL
    stage.chronicle.record(ProfileChosen(0.5, EVIL, EVIL))
    (item,) = relist(2, **{EVIL: RUNNING}).items
    item = item._replace(name=EVIL, pod=Pod(EVIL, EVIL, EVIL), sandbox_id=EVIL)
    lists = [replace(relist(at), items=(item,)) for at in (2, 20)]
    stage.take(relist(1), lists[0], StreamDown(3), lists[1])
    async with pages_of(stage, config) as url:
        status = (await fetch(url)).text
        text = (await fetch(f"{url}debug/misses?format=html")).text
        document = json.loads((await fetch(f"{url}debug/misses")).text)
    # Title, header, runtime twice, both notes; then three names of the case.
    assert status.count(ESCAPED) == 9
    assert status.count("<script") == 1
    assert text.count(ESCAPED) >= 5
    assert "<script" not in text
    assert all(line.isprintable() for page in (status, text) for line in page.split("\n"))
    assert document["records"][0]["container"]["name"] == EVIL


async def test_page_and_json_are_bounded() -> None:
    stage = Stage.watching()
    stage.lose(300, "ü" * 300)
    document, page = await ask(stage), await ask(stage, "?format=html")
    assert len(document.text) < KEPT_BYTES + 10_000
    records = json.loads(document.text)["records"]
    assert 12 < len(records) == stage.node.evidence_records < 300
    assert len(re.findall("<article", page.text)) == 12
    assert len(page.text) < KEPT_BYTES


async def test_the_status_page_has_the_newest_in_one_line_each() -> None:
    stage = lossy(15)
    async with pages_of(stage) as url:
        page = (await fetch(url)).text
        links = re.findall(r'<a href="(\./debug/misses\?format=html#record-(\d+))">', page)
        assert [int(number) for _, number in links] == list(range(15, 5, -1))
        newest = stage.records[-1]
        for words in (newest["at"], "ContainerStarted</a> of a container", "missed, silent"):
            assert words in page, words
        assert newest["container"]["id"] in page
        allowed = (".", RUNBOOKS, "https://github.com/containerd/containerd/issues/")
        assert all(each.startswith(allowed) for each in LINK.findall(page))
        shown = (await fetch(url + links[0][0][2:])).text
    for _, number in links:
        assert f'<article id="record-{number}">' in shown


async def test_what_did_not_end_is_not_said_to_have_died() -> None:
    """Of a container that runs on without a child, or is frozen, there is no ContainerDied."""
    stage = Stage.watching()
    shown = {"p1": READY, "c1": RUNNING.inside("p1")}
    stage.take(*facts_of([*began(), killed(20), *relists(21, 30, **shown)]))
    async with pages_of(stage) as url:
        status, cases = (
            (await fetch(url)).text,
            (await fetch(f"{url}debug/misses?format=html")).text,
        )
    assert "oom, survived</a>: a container" in status
    assert "#1</a> oom, survived</h2>" in cases
