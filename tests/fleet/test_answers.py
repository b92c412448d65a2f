"""Answers of what claims to be a Prometheus: one line or an intact page, never a traceback."""

import asyncio
import copy
import functools
import json
import math
import operator
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.queries import Queries
from fleet.request import FailOn, Span
from tests.fleet.conftest import Reported, prometheus, recorded_answers, reported
from tests.support.http_answers import answering
from tests.support.prometheus import Answered, standing_in
from tests.support.report_fleets import EVENTS, START, WINDOW

pytestmark = pytest.mark.quick
END = START + WINDOW
SPAN = Span(300, 24, END)
BY_NODE = Queries(SPAN, ("cluster", "node"))
NEW = {"name": "containerd", "version": "2.1.9", "stream": "broadcast"}


def sample(number: float, **labels: str) -> dict[str, Any]:
    """One series of a vector."""
    return {"metric": labels, "value": [END, str(number)]}


def named(**numbers: float) -> list[dict[str, Any]]:
    """Several numbers in one answer."""
    return [sample(number, what=what) for what, number in numbers.items()]


def by_event(number: float, **labels: str) -> list[dict[str, Any]]:
    """So many transitions of each event."""
    return [sample(number, **labels, event=event) for event in EVENTS]


# Two nodes that listened to all of 40,000 transitions, in a fleet that Prometheus knows nothing
# else about.
CALM: dict[str, Any] = {
    "processes": named(all=2, named=2),
    "nodes": [sample(2, **NEW)],
    "lifecycle_events": by_event(10_000, **NEW),
    "judged_exits": [sample(10_000, **NEW)],
    "judged_others": [sample(30_000, **NEW)],
    "coverage": named(seen=2, now=2, lived=48, streaming=48, together=24, first=START + 300),
}


def answers(**results: Any) -> list[Answered]:
    """A calm fleet's answers to all queries, but for these."""
    first = ("processes", "first_sight")
    asked = BY_NODE.asked() | {name: BY_NODE.query(name) for name in first}
    found = dict.fromkeys(asked, ()) | CALM | results
    return [
        Answered({"query": asked[name], "time": str(END)}, list(result))
        for name, result in found.items()
    ]


CLEAR = "\x1b[2J"
# All that Markdown, HTML or a terminal could take for more than a name.
NAME = (
    f"{CLEAR}\u202e\u2028\r\n\n# GO\n| --- |\n- x\n1. y\n===\n~~no~~ ***b*** `c` $d$ &lt;"
    " [l](http://evil.example) <b>http://evil.example www.evil.example a@evil.example"
    " <script>alert(1)</script>"
)


def named_fleet(name: str) -> list[Answered]:
    """A fleet in which everything that can be named has that name."""
    labels, event = {"name": name, "version": name, "stream": name}, {"event": name}
    node = {"cluster": name, "node": name}
    return answers(
        nodes=[sample(2, **labels)],
        lifecycle_events=[sample(10_000, **labels, **event)],
        judged_exits=[sample(10_000, **labels)],
        missed_events=[
            sample(1, **labels, **event, cause="silent"),
            sample(1, **labels, cause=name),
        ],
        late_events=[sample(1, **labels, **event, cause=name)],
        named=[sample(1, **labels, **node, what=what) for what in ("lost", "unwatched", name)],
        coverage=named(seen=2, now=2, lived=48, streaming=48, kubelets=9, unwatched=2),
        versions=[sample(1, **labels, what="versions", git_version=name)],
    )


async def report_of(name: str, form: str, *, terminal: bool = False) -> str:
    """The report about that fleet; Prometheus warns of that name, too."""
    async with standing_in(*named_fleet(name), warnings=(name,)) as url:
        outcome = await reported(url, f"--output-format={form}", terminal=terminal)
    assert (outcome.code, outcome.err) == (0, "")
    return outcome.out


@pytest.mark.parametrize("form", ["json", "markdown", "text"])
async def test_names_control_no_terminal(form: str) -> None:
    """No escape sequence and no mark of direction is in the report."""
    assert all(char.isprintable() or char == "\n" for char in await report_of(NAME, form))


async def test_a_terminal_gets_no_escapes_unless_they_are_asked_for() -> None:
    """The same words: of a name with a markup, and of the report's own."""
    text = await report_of("a_b", "", terminal=True)
    markdown = await report_of("a_b", "markdown", terminal=True)
    assert markdown == await report_of("a_b", "")
    assert text == await report_of("a_b", "text")
    assert r"a\_b/a\_b" in markdown
    assert "\\" not in text
    links = re.sub(r"\[(.*?)\]\((.*?)\)", r"\1 \2", markdown)
    assert re.sub(r"\\(.)", r"\1", links) == text


async def test_names_are_no_markdown() -> None:
    """As many lines and cells as with plain names, and nothing is a link, an item or a rule."""
    plain, odd = [
        re.sub(r"\\.", "", await report_of(name, "markdown")).splitlines() for name in ("x", NAME)
    ]
    assert [line.count("|") for line in odd] == [line.count("|") for line in plain]
    assert [line[:1] for line in odd] == [line[:1] for line in plain]
    bare = "\n".join(odd)
    for markup in ("http://", "www.", "~~", "***", "&lt;", "$d$", "<script", "===", "@evil"):
        assert markup not in bare, markup


@pytest.mark.parametrize("name", ["1. x", "12) x", "- x", "+ x"])
async def test_a_name_begins_no_list(name: str) -> None:
    """Where an item of the report begins with it."""
    version = {"name": name, "version": "2.1.9", "stream": "broadcast"}
    lost = [sample(9, **version, event="ContainerDied", cause="silent")]
    async with standing_in(*answers(nodes=[sample(2, **version)], missed_events=lost)) as url:
        text = (await reported(url, "--output-format=markdown")).out
    assert re.search(r"^- (\d*\\[.)]|\\[-+]) x 2.1.9 ", text, re.MULTILINE)


async def test_an_error_controls_no_terminal() -> None:
    """Prometheus' own words are escaped, and in one line."""
    answer = json.dumps({"status": "error", "error": NAME})
    async with prometheus(answering(text=answer, status=422)) as url:
        said = (await reported(url)).complaint()
    assert said.startswith(f"{url} refuses a query (422): \\x1b[2J\\u202e")
    assert said.isprintable()


# In the place of any number or text of an answer.
TEXTS = ("", "x", "NaN", "+Inf", "-1", "1e300", "\ud800", NAME)
ODD: st.SearchStrategy[object] = st.sampled_from(
    [*TEXTS, None, True, -1, 10**400, math.nan, [], {}]
) | st.floats(0, 1e13).map(str)


def places(node: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each number and text of a JSON document."""
    if not isinstance(node, dict | list):
        yield path
        return
    for key, below in node.items() if isinstance(node, dict) else enumerate(node):
        yield from places(below, (*path, key))


@given(data=st.data(), form=st.sampled_from(["json", "markdown"]))
def test_no_answer_breaks_the_report(data: st.DataObject, form: str) -> None:
    """A recorded answer with some odd values: a whole report without escapes, or one line."""
    known = recorded_answers()
    which = data.draw(st.sampled_from([i for i, each in enumerate(known) if each.result]))
    changed: Any = copy.deepcopy(known[which].result)
    change = st.tuples(st.sampled_from(list(places(changed))), ODD)
    for (*way, last), odd in data.draw(st.lists(change, min_size=1, unique_by=lambda it: it[0])):
        functools.reduce(operator.getitem, way, changed)[last] = copy.deepcopy(odd)
    known[which] = replace(known[which], result=changed)

    async def run() -> Reported:
        async with standing_in(*known) as url:
            flags = ('--selector=cluster="blue"', f"--output-format={form}")
            return await reported(url, *flags)

    outcome = asyncio.run(run())
    assert (outcome.code, outcome.err == "", outcome.out != "") in (
        (0, True, True),
        (1, False, False),
    )
    said = outcome.out or outcome.err
    assert said.endswith("\n")
    assert all(char.isprintable() or char == "\n" for char in said)
    assert outcome.err.count("\n") == outcome.code


async def test_what_the_labels_do_not_tell_is_noted() -> None:
    """Some targets without the node's label; and what Prometheus itself warns of."""
    known = answers(processes=named(all=5, named=3))
    async with standing_in(*known, warnings=("too old",)) as url:
        notes = (await reported(url)).data["notes"]
    assert "2 of 5 targets have no label node: they count as one node" in notes
    assert "Prometheus warns: too old" in notes


@pytest.mark.parametrize(
    ("judged", "lost", "verdict", "failing"),
    [
        (10_000, 0, "NOT YET", {FailOn.NOT_GO}),
        (1000, 0, "NOT ENOUGH EVIDENCE", {FailOn.NOT_GO}),
        (10_000, 100, "NO-GO", {FailOn.NOT_GO, FailOn.NO_GO}),
    ],
)
async def test_a_pipeline_fails_on_the_verdicts_that_it_names(
    judged: int, lost: int, verdict: str, failing: set[FailOn]
) -> None:
    """The report is written in any case, and nothing on stderr."""
    missed = [sample(lost, **NEW, event="ContainerDied", cause="silent")]
    kubelets = [sample(2, **NEW, what="versions", git_version="v1.36.0")]
    known = answers(judged_exits=[sample(judged, **NEW)], missed_events=missed, versions=kubelets)
    async with standing_in(*known) as url:
        for fail_on in ("never", "no-go", "not-go"):
            flags = ("--output-format=markdown", f"--fail-on={fail_on}")
            outcome = await reported(url, *flags)
            assert outcome.out.startswith(f"# {verdict}\n")
            assert (outcome.code, outcome.err) == (int(FailOn(fail_on) in failing), "")
