"""The status page: what it says, draws and shows, and what a browser may do with it."""

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from exporter import RUNBOOKS, __version__
from exporter.conditions.catalogue import ALL, BY_NAME
from exporter.conditions.condition import Condition, Mood
from exporter.model.events import EventType, ObjectKind
from exporter.model.facts import Fact, StreamUp
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.labels import KubeletPods, StreamKind, StreamState
from exporter.node.history import SECONDS, SLOTS, Day
from exporter.node.judgement import Judgement
from exporter.node.state import Node, RuntimeInfo
from exporter.web.status_page import (
    Headline,
    Lane,
    Lanes,
    LastDay,
    Period,
    headline_of,
    lanes_of,
    last_day_of,
)
from tests import ROOT, assert_golden
from tests.support.commands import fetch
from tests.support.facts import found
from tests.support.stage import Stage
from tests.support.web import CONFIG, pages_of

pytestmark = pytest.mark.quick

NOW = 1000.0
MISSED = found(Verdict.MISSED, Cause.SILENT)
STALLED = found(Verdict.MISSED, Cause.STALLED)
DOWN = found(Verdict.MISSED, Cause.STREAM_DOWN)
SHARED = found(Verdict.MISSED, Cause.SHARED)
SEEN = found(Verdict.WITNESSED)


class World(Stage):
    """A node that was listed just now; `recent` was found in the last 15 minutes."""

    def __init__(
        self,
        *recent: Finding,
        standing: Mapping[Verdict, int] | None = None,
        stream: tuple[StreamState, str, str] | tuple[StreamState] = (StreamState.STREAMING,),
        **fields: object,
    ) -> None:
        listed = {"relist_succeeded": NOW, "relist_begun": NOW}
        super().__init__(standing=standing, **listed | fields)
        self.node.stream.become(*stream)
        self.node.received[EventType.STARTED, ObjectKind.CONTAINER] += 5
        self.hear(StreamUp(NOW, NOW), found=recent)

    @property
    def judgement(self) -> Judgement:
        return self.judge.at(NOW + 1)

    @property
    def headline(self) -> tuple[Headline, ...]:
        """What is said."""
        return headline_of(self.judgement)


OVERDUE: dict[str, Any] = {"relist_period": 10.0, "relist_succeeded_wall": 3_600.0}
REFUSED = "ListPodSandbox: unavailable: connection refused"
BROKEN = "GetContainerEvents: unavailable: error reading from server: EOF"
EXCLUSIVE = RuntimeInfo("containerd", "1.7.24", "v1", StreamKind.EXCLUSIVE)
HEADLINES = {
    "nothing has happened": World(),
    "all was announced": World(SEEN),
    "some were not": World(*[SEEN] * 140, *[MISSED] * 7),
    "none was delivered": World(*[SEEN] * 9, *[STALLED] * 9),
    "a step was skipped": World(found(Verdict.GAP), SEEN),
    "the stream was down": World(SEEN, SEEN, DOWN, DOWN),
    "a relist hangs": World(**OVERDUE | {"relist_succeeded": NOW - 21}),
    "a relist failed": World(**OVERDUE, relist_note=REFUSED),
    "the first relist is under way": World(relist_succeeded=None),
    "the first relist failed": World(relist_succeeded=None, relist_note="no runtime socket"),
    "the stream is down": World(
        SEEN, stream=(StreamState.BACKOFF, BROKEN, "unavailable"), stream_retry_wall=3_661.0
    ),
    "the stream is refused": World(SEEN, stream=(StreamState.REFUSED,)),
    "the stream is disabled": World(SEEN, stream=(StreamState.DISABLED,)),
    "there is no stream": World(SEEN, stream=(StreamState.UNSUPPORTED,)),
    "the stream is exclusive": World(SEEN, SHARED, runtime=EXCLUSIVE),
    "the lists are wrong": World(SEEN, standing={Verdict.GHOST: 1, Verdict.STRAY: 2}),
    "twins run": World(SEEN, standing={Verdict.TWIN: 1}),
}


def test_what_the_headline_says_is_the_golden_text() -> None:
    text = []
    for story, world in HEADLINES.items():
        text += [f"{story}:"]
        for said in world.headline:
            text += [f"  {said.mood.value}: {said.text}"]
            more = *said.sentences, said.todo, said.runbook.removeprefix(RUNBOOKS)
            text += [f"    {each}" for each in more if each]
    assert_golden("\n".join(text) + "\n", ROOT / "tests" / "golden" / "headlines.txt")


@pytest.mark.parametrize("condition", ALL, ids=lambda each: each.name)
def test_who_is_shown_what_to_do_gets_a_link_and_the_other_way_round(condition: Condition) -> None:
    judgement = World(SEEN).judgement
    (said,) = headline_of(replace(judgement, conditions=(condition,)))
    assert bool(said.todo) is bool(said.runbook) is bool(said.alert)


END = SLOTS * SECONDS - 1
BAR = re.compile(r"M(\d+) 20v-(\d+)h0\.8V20z")
GAP = found(Verdict.GAP)
OURS, DESIGN = (found(Verdict.MISSED, cause) for cause in (Cause.DISCARDED, Cause.BY_DESIGN))


def drawn(*taken: Fact) -> Stage:
    return Stage(StreamUp(0.0, 0.0), *taken)


def drawing(of: Stage, now: float = END) -> Lanes:
    return lanes_of(of.history, of.judge.at(now), now)


def lanes(of: Stage, now: float = END) -> dict[str, Lane]:
    return {each.name: each for each in drawing(of, now).lanes}


def bars(lane: Lane) -> dict[int, int]:
    (path,) = lane.bars.values()
    assert BAR.sub("", path) == ""
    return {int(place): int(height) for place, height in BAR.findall(path)}


def test_witnesses_share_one_scale() -> None:
    stage = drawn()
    stage.relist(1, *[SEEN] * 20)
    stage.receive(2)
    stage.receive(END - 5, 40)
    by_name = lanes(stage)
    assert "kernel" not in by_name
    assert bars(by_name["relist"]) == {0: 10}
    assert bars(by_name["stream"]) == {0: 1, 89: 20}
    assert [by_name[name].number for name in ("relist", "stream")] == ["20", "41"]
    assert drawing(stage).most == (40, 0)


def test_each_number_is_the_sum_of_its_bars() -> None:
    """What came late was missed before, and is drawn when it came; by design is no miss."""
    stage = drawn()
    stage.relist(1, SEEN, MISSED, STALLED, GAP)
    assert "came late" not in lanes(stage, 1.0)
    stage.relist(451, DOWN)
    stage.relist(461, OURS, SHARED)
    stage.relist(601, DESIGN, found(Verdict.LATE, Cause.STALLED), *[MISSED] * 27)
    by_name = lanes(stage)
    missed, late, ours = (by_name[name] for name in ("missed", "came late", "not received"))
    assert (bars(missed), missed.number) == ({0: 4, 60: 20}, "30")
    assert (bars(late), late.number) == ({60: 4}, "1")
    assert (bars(ours), ours.number) == ({45: 4, 46: 4}, "3")
    assert drawing(stage).most[1] == 27


def test_contradictions_are_a_lane_from_what_was_seen_of_them() -> None:
    """Of all kinds together; what else holds is none. The number is of now."""
    stage = drawn()
    stage.history.hold(451.0, ["ghosts", "stream_down"])
    stage.history.hold(461.0, ["twins", "strays"])
    stage.history.hold(471.0, ["stream_down"])
    stage.standing[Verdict.GHOST] = 3
    lane = lanes(stage)["contradictions"]
    assert (bars(lane), lane.number) == ({45: 20, 46: 20}, "3 now")


# 03:00 on some day, and the quarter of an hour in which it is.
THREE = 1_700_017_200.0
LOSING, GHOSTS, COMPLETE = (BY_NAME[name] for name in ("losing", "ghosts", "complete"))


def night(
    held: Mapping[float, tuple[Condition, ...]], lost: int = 0, slewed: float = 0.0
) -> LastDay:
    """What the page says at 03:05 of a process that looked at these hours before 03:00."""
    node = Node()
    day = Day(node, ahead=THREE)
    for hours, holding in held.items():
        node.received[EventType.STARTED, ObjectKind.CONTAINER] += 10
        for _ in range(lost):
            node.tally.add(MISSED, 0.0)
        day.look(-3600.0 * hours, holding)
    holding = held.get(0.0, ())
    return last_day_of(day, holding, 300.0, THREE + 300.0 + slewed)


@pytest.mark.parametrize("slewed", [0.0, 20.0, -20.0])
def test_what_happened_at_night_is_shown_in_the_morning(slewed: float) -> None:
    """The latest first, with what was lost meanwhile; to the minute, whatever ntpd does."""
    held = {1.0: (LOSING,), 0.75: (LOSING, GHOSTS), 0.5: (LOSING,), 0.25: (COMPLETE,)}
    shown = night({2.0: (GHOSTS,)} | held | {0.0: (GHOSTS,)}, lost=4, slewed=slewed)
    assert shown.periods == (
        Period(Mood.BAD, "03:00 to now", GHOSTS.headline),
        Period(Mood.BAD, "02:00 to 02:45", f"{LOSING.headline} (12 lost, 30 received)"),
        Period(Mood.BAD, "02:15 to 02:30", GHOSTS.headline),
        Period(Mood.BAD, "01:00 to 01:15", GHOSTS.headline),
    )
    assert shown.older == 0
    assert shown.times == ("03:15", "09:15", "15:15", "21:15")
    heights = {
        mood: {int(at): int(tall) for at, tall in BAR.findall(path)}
        for mood, path in shown.lane.bars.items()
    }
    assert heights == {
        "bad": dict.fromkeys((87, 91, 92, 93, 95), 20),
        "unsure": {},
        "good": {94: 3},
    }


def test_no_stretch_is_longer_than_what_was_seen() -> None:
    day = Day(Node(), ahead=THREE)
    day.look(-120.0, (LOSING, GHOSTS))
    day.look(60.0, (LOSING, GHOSTS))
    shown = last_day_of(day, (GHOSTS,), 300.0, THREE + 300.0)
    assert [each.when for each in shown.periods] == ["02:58 to 03:05", "02:58 to now"]
    assert shown.since == "02:58"


async def page_of(stage: Stage) -> str:
    async with pages_of(stage) as url:
        answer = await fetch(url)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    return answer.text


@pytest.mark.virtual_time
async def test_the_policy_is_strict() -> None:
    async with pages_of() as url:
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


@pytest.mark.virtual_time
async def test_the_page_is_about_this_node_and_reloads() -> None:
    runtime = RuntimeInfo("containerd", "2.0.1", "v1", StreamKind.BROADCAST)
    stage = Stage.streaming(runtime=runtime, relist_begun=time.monotonic(), discards=3)
    stage.node.tally.add(found(Verdict.EXIT_ANNOUNCED)._replace(seconds=0.5), 0.0)
    stage.node.tally.add(found(Verdict.EXIT_BELIEVED)._replace(seconds=1.5), 0.0)
    stage.node.pods.become(KubeletPods.DENIED, "only uid 0 may connect")
    text = await page_of(stage)
    for said in (
        f"shadow-pleg {__version__}",
        "node node-7",
        '<noscript><meta http-equiv="refresh" content="10"></noscript>',
        '<div class="headline good">',
        "<b>containerd 2.0.1</b>",
        ">containerd#11579</a>",
        "<b>streaming</b>",
        " ms ago</b>",
        "<b>alive, ready</b>",
        "<b>announced after 500 ms</b>",
        "<b>shows exits after 1.5 s</b>",
        "only uid 0 may connect",
        "dropped: 3 events",
    ):
        assert said in text, said
    assert text.count("<h1>") == 1
    # That bug is of the kubelet's gate, not the runtime's own.
    assert "k/k#123087" not in text
    stage.node.relist_note = "gone"
    assert '<div class="headline bad">' in await page_of(stage)


@pytest.mark.virtual_time
async def test_the_page_says_why_the_process_is_not_alive() -> None:
    dead = Stage(relist_begun=time.monotonic() - 900, relist_note="ListPodSandbox: gone")
    page = await page_of(dead)
    assert "<b>not alive, not ready</b>" in page
    assert ">no relist was begun for 141 s<" in page
    assert page.count(">ListPodSandbox: gone<") == 1


@pytest.mark.virtual_time
async def test_a_look_is_remembered_and_shown() -> None:
    """What is so by state for as long as it counts, and for a day what held."""
    stage = Stage.streaming(relist_note="gone", relist_reason="unavailable")
    stage.judge.look(time.monotonic())
    assert stage.history.held(time.monotonic()) == {"not_answering": SECONDS}
    config = replace(CONFIG, web_runbooks_url="https://wiki.example/r")
    async with pages_of(stage, config) as url:
        text = (await fetch(url)).text
    assert re.search(
        r'<span class="bad">\d\d:\d\d to now</span></th><td>The runtime does not answer</td>', text
    )
    assert 'href="https://wiki.example/r/ShadowPlegRelistStale.md"' in text


def test_what_to_do_about_two_conditions_is_said_once() -> None:
    conditions = flapping, down = BY_NAME["stream_flapping"], BY_NAME["stream_down"]
    first, second = headline_of(replace(World(SEEN).judgement, conditions=conditions))
    assert (first.todo, first.alert) == (
        f"{flapping.todo}.".replace("`", ""),
        "ShadowPlegStreamDown",
    )
    assert (second.text, second.todo, second.runbook) == (down.headline, "", "")
