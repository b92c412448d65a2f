"""The status page: the one thing to know about a node, and why."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from exporter import __version__
from exporter.node.state import Inventory, Node, RuntimeInfo, StreamState
from exporter.pleg.events import Lifecycle, ListedState, ObjectKind
from exporter.pleg.findings import Cause, Finding, Verdict
from exporter.pleg.profiles import StreamKind
from exporter.settings.config import Config
from exporter.web.status.view import Comparison, Mood, status_of
from tests.support.commands import fetch
from tests.support.web_pages import CONFIG, face_of

pytestmark = pytest.mark.quick

NOW = 1000.0
HOSTILE = "<script>alert('x')</script>\"&"


def watched(*findings: Finding, stream: StreamState = StreamState.STREAMING) -> Node:
    """A node that was listed just now, and of which these findings are known."""
    node = Node(stream=stream, relist_succeeded=NOW, relist_turned=NOW)
    for finding in findings:
        node.tally.add(finding, 0.0)
    return node


def found(verdict: Verdict, cause: Cause | None = None) -> Finding:
    """A finding about the exit of some container."""
    return Finding(verdict, Lifecycle.DIED, ObjectKind.CONTAINER, "c1", cause=cause)


MISSED = found(Verdict.MISSED, Cause.SILENT)
SEEN = found(Verdict.WITNESSED)
MOODS = (
    (
        Node(),
        Mood.UNSURE,
        "Cannot tell",
        "No recent relist: the runtime does not answer its lists.",
    ),
    (
        watched(MISSED),
        Mood.BAD,
        "The event stream loses events",
        "Since the start: 1 missed silently.",
    ),
    (
        watched(MISSED, found(Verdict.GAP), found(Verdict.GAP)),
        Mood.BAD,
        "The event stream loses events",
        "Since the start: 1 missed silently, 2 gaps.",
    ),
    (
        watched(found(Verdict.GAP)),
        Mood.BAD,
        "The event stream loses events",
        "Since the start: 0 missed silently, 1 gap.",
    ),
    (
        watched(SEEN, stream=StreamState.BACKOFF),
        Mood.UNSURE,
        "Not watching the event stream",
        "backoff",
    ),
    (
        watched(),
        Mood.GOOD,
        "Watching, nothing has happened yet",
        "No container has come or gone.",
    ),
    (
        watched(SEEN, found(Verdict.MISSED, Cause.BY_DESIGN)),
        Mood.GOOD,
        "The event stream is complete",
        "1 lifecycle events, none lost silently.",
    ),
)


class Page(HTMLParser):
    """A page as a browser takes it: its tags, its text, and what came without an end."""

    VOID = ("meta", "link", "br")

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag that begins."""
        self.tags[tag] += 1
        self.tags[f"{tag}.{dict(attrs).get('class')}"] += 1
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        """A tag that ends must be the one that began last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text."""
        self.text += data
        if self.open[-1:] in (["td"], ["th"]):
            self.rows[-1][-1] += data


async def page_of(
    node: Node, config: Config = CONFIG, comparisons: tuple[Comparison, ...] = ()
) -> Page:
    """The status page, fetched and taken apart."""
    async with face_of(node, config, comparisons) as url:
        answer = await fetch(url)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    page = Page(answer.text)
    assert page.open == []
    return page


@pytest.mark.parametrize(("node", "mood", "headline", "explanation"), MOODS)
def test_the_headline_is_the_one_thing_to_know(
    node: Node, mood: Mood, headline: str, explanation: str
) -> None:
    """Not knowing comes first, losses before everything that is merely odd."""
    status = status_of(node, CONFIG, NOW + 1)
    assert (status.mood, status.headline, status.explanation) == (mood, headline, explanation)


@pytest.mark.parametrize("state", [s for s in StreamState if s is not StreamState.STREAMING])
def test_a_stream_that_is_not_up_says_why(state: StreamState) -> None:
    """The note is what an operator can act on."""
    node = replace(watched(SEEN, stream=state), stream_note="because")
    assert status_of(node, CONFIG, NOW).explanation == "because"


def test_an_old_relist_outweighs_everything() -> None:
    """What was counted long ago says nothing about now."""
    status = status_of(watched(MISSED), CONFIG, NOW + CONFIG.relist_threshold)
    assert (status.mood, status.relist) == (Mood.UNSURE, "180 s ago")


def test_what_is_not_known_yet_is_said_so() -> None:
    """No empty card."""
    status = status_of(Node(), CONFIG, NOW)
    assert (status.runtime, status.relist) == ("not reached yet", "none succeeded yet")
    assert status.inventory == "0 pods, 0 sandboxes, 0 containers"


def test_every_cause_and_every_verdict_of_note_has_its_row() -> None:
    """Numbers come from the tally; the total of a verdict is over all events and objects."""
    status = status_of(watched(MISSED, SEEN, SEEN), CONFIG, NOW)
    assert {row.label: row.number for row in status.missed} == {
        "silent": 1,
        "stream_down": 0,
        "discarded": 0,
        "by_design": 0,
    }
    counted = {row.label: row.number for row in status.verdicts}
    elsewhere = {Verdict.MISSED.value, Verdict.OVERFLOW.value}
    assert set(counted) == {verdict.value for verdict in Verdict} - elsewhere
    assert (counted["witnessed"], counted["late"]) == (2, 0)


@pytest.mark.parametrize("node", [MOODS[0][0], MOODS[1][0], MOODS[5][0]], ids=lambda _: "")
async def test_the_page_wears_its_mood(node: Node) -> None:
    """The headline's colour says the same as its words."""
    now = time.monotonic()
    fresh = replace(node, relist_succeeded=now if node.relist_succeeded else None)
    page = await page_of(fresh)
    mood = status_of(fresh, CONFIG, now).mood.value
    assert page.tags[f"div.headline {mood}"] == 1
    assert page.tags["h1"] == 1


async def test_the_page_shows_node_runtime_stream_and_relist() -> None:
    """Everything that a person would ask next."""
    node = replace(
        watched(),
        relist_succeeded=time.monotonic(),
        runtime=RuntimeInfo("containerd", "2.1.9", "v1", StreamKind.BROADCAST),
        inventory=Inventory(3, Counter({ListedState.RUNNING: 4}), Counter({ListedState.EXITED: 5})),
    )
    text = (await page_of(node)).text
    for said in (
        f"shadow-pleg {__version__}",
        "node node-7",
        "containerd 2.1.9",
        "3 pods, 4 sandboxes, 5 containers",
        "streaming",
        "0 s ago",
    ):
        assert said in text


async def test_what_a_runtime_says_is_text_and_never_markup() -> None:
    """A runtime's name, an error's text, a node's name: shown as they are."""
    node = replace(
        watched(stream=StreamState.BACKOFF),
        runtime=RuntimeInfo(HOSTILE, HOSTILE, HOSTILE, StreamKind.BROADCAST),
        stream_note=HOSTILE,
        relist_note=HOSTILE,
        relist_succeeded=time.monotonic(),
    )
    config = replace(CONFIG, node_name=HOSTILE)
    page = await page_of(node, config, (Comparison(HOSTILE, 1, 0),))
    # Ours, which are files.
    assert page.tags["script"] == 2
    # Title, header, runtime twice, stream's note, explanation, relist's note, comparison.
    assert page.text.count(HOSTILE) == 8


async def test_comparisons_that_agree_and_that_differ_look_different() -> None:
    """The demo's proof: what was lost on purpose stands beside what was counted."""
    page = await page_of(watched(), CONFIG, (Comparison("died", 2, 2), Comparison("all", 5, 3)))
    assert ["died", "2", "2", "equal"] in page.rows
    assert ["all", "5", "3", "2 open"] in page.rows
    assert page.tags["tr.differs"] == 1


async def test_a_real_node_has_nothing_to_compare_with() -> None:
    """Nobody knows what a real runtime lost but by counting."""
    assert "Injected" not in (await page_of(watched())).text
