"""Odd answers of what claims to be a Prometheus: one line or an intact page, never a traceback."""

import asyncio
import copy
import functools
import math
import operator
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from testbed.servers import served
from tests.fleet.conftest import Reported, recorded_answers, reported
from tests.support.prometheus import Answered, standing_in
from tests.support.report_answers import END, NEW, answers, by_event, named, sample

pytestmark = pytest.mark.quick
CLEAR = "\x1b[2J"
# All that Markdown, HTML or a terminal could take for more than a name.
NAME = (
    f"{CLEAR}\u202e\u2028\r\n\n# GO\n| --- |\n- x\n1. y\n===\n~~no~~ ***b*** `c` $d$ &lt;"
    " [l](http://evil.example) <b>http://evil.example www.evil.example a@evil.example"
    " <script>alert(1)</script>"
)


def series(value: object, **labels: object) -> dict[str, Any]:
    """One series of a vector, of any types."""
    return {"metric": labels, "value": [END, value]}


IMPOSSIBLE: dict[str, dict[str, Any]] = {
    "a_huge_time": {"coverage": named(first=1e300)},
    "a_huge_count": {"lifecycle_events": [sample(1e300, **NEW)]},
    "a_negative_count": {"judged_exits": [sample(-1, **NEW)]},
    "a_negative_number_of_nodes": {"nodes": [sample(-7, **NEW)]},
    "a_count_that_is_no_text": {"nodes": [series(1, **NEW)]},
    "a_list_for_a_label": {"missed_events": [series("1", event=["x"], cause="silent", **NEW)]},
    "a_number_for_a_label": {"named": [series("1", node=7)]},
    "a_label_without_a_value": {"late_events": [series("1", event=None, **NEW)]},
    "half_a_character": {"nodes": [series("1", **(NEW | {"version": "\ud800"}))]},
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
async def test_an_impossible_answer_is_one_line(what: str) -> None:
    """Numbers that no fleet has, times that no calendar has, labels that are no text."""
    async with standing_in(*answers(**IMPOSSIBLE[what])) as url:
        for form in ("json", "markdown"):
            said = (await reported(url, f"--output-format={form}")).complaint()
            assert said == (
                f"{url} does not answer as a Prometheus does (HTTP 200): see --prometheus-url"
            )


async def test_the_largest_fleet_is_reported_at_once() -> None:
    """The bound of a million million losses takes no longer than that of one."""
    most, died = 1e12, {"event": "ContainerDied", "cause": "silent"}
    known = answers(
        lifecycle_events=by_event(most, **NEW),
        judged_exits=[sample(most, **NEW)],
        missed_events=[sample(most / 2, **NEW, **died)],
        coverage=named(first=1e12, seen=1, lived=1e12, streaming=1e12),
    )
    async with standing_in(*known) as url:
        exits = (await reported(url)).data["fleet"]["exits"]
    assert exits["loss_lower_bound"] < 0.5 < exits["loss_upper_bound"] < 0.50001


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
        kubelets=[sample(1, **labels, what="versions", git_version=name)],
    )


async def report_of(name: str, form: str) -> str:
    """The report about that fleet; Prometheus warns of that name, too."""
    async with standing_in(*named_fleet(name), warnings=(name,)) as url:
        outcome = await reported(url, f"--output-format={form}")
    assert (outcome.code, outcome.err) == (0, "")
    return outcome.out


@pytest.mark.parametrize("form", ["json", "markdown"])
async def test_names_control_no_terminal(form: str) -> None:
    """No escape sequence and no mark of direction is in the report."""
    assert all(char.isprintable() or char == "\n" for char in await report_of(NAME, form))


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

    async def refusing(_request: web.Request) -> web.Response:
        return web.json_response({"status": "error", "error": NAME}, status=422)

    application = web.Application()
    application.router.add_post("/api/v1/query", refusing)
    async with served(application) as url:
        said = (await reported(url)).complaint()
    assert said.startswith(f"{url} refuses a query (422): \\x1b[2J\\u202e")
    assert said.isprintable()


# In the place of any number or text of an answer.
ODD: st.SearchStrategy[object] = st.sampled_from(
    ["", "x", "NaN", "+Inf", "-1", "1e300", NAME, None, True, -1, 10**400, math.nan, [], {}, [[]]]
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
