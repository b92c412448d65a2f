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

from tests.support.peers import answered_by, answering
from tests.support.prometheus import Answered
from tests.support.report_fleets import mixed, recorded_answers, reported

pytestmark = pytest.mark.quick
CLEAR = "\x1b[2J"
# All that Markdown, HTML or a terminal could take for more than a name.
NAME = (
    f"{CLEAR}\u202e\u2028\r\n\n# GO\n| --- |\n- x\n1. y\n===\n~~no~~ ***b*** `c` $d$ &lt;"
    " [l](http://evil.example) <b>http://evil.example www.evil.example a@evil.example"
    " <script>alert(1)</script>"
)


LABELS = {"cluster", "node", "name", "version", "stream", "git_version", "event", "cause"}


def renamed(name: str) -> list[Answered]:
    """The recorded answers, with that name for all that can be named, and one more reason."""

    def named(each: dict[str, Any], **more: str) -> dict[str, Any]:
        names = dict.fromkeys(LABELS & each["metric"].keys(), name) | more
        return each | {"metric": each["metric"] | names}

    return [
        replace(
            it, result=[*map(named, it.result), *(named(one, what=name) for one in it.result[:1])]
        )
        for it in recorded_answers()
    ]


async def report_of(name: str, form: str) -> str:
    """The report about that fleet; Prometheus warns of that name, too."""
    outcome = await mixed(f"--output-format={form}", known=renamed(name), warnings=(name,))
    assert (outcome.code, outcome.err) == (0, "")
    return outcome.out


@pytest.mark.parametrize("form", ["json", "markdown", "text"])
async def test_names_control_no_terminal(form: str) -> None:
    """No escape sequence and no mark of direction is in the report."""
    assert all(char.isprintable() or char == "\n" for char in await report_of(NAME, form))


async def test_text_is_markdown_without_escapes() -> None:
    """The same words: of a name with a markup, and of the report's own."""
    text, markdown = await report_of("a_b", "text"), await report_of("a_b", "markdown")
    assert markdown == await report_of("a_b", "")
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
    for name in ("1. x", "+ x"):
        assert f"\n- {name}" not in await report_of(name, "markdown"), name


async def test_an_error_controls_no_terminal() -> None:
    """Prometheus' own words are escaped, and in one line."""
    answer = json.dumps({"status": "error", "error": NAME})
    async with answered_by(answering(text=answer, status=422)) as url:
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

    outcome = asyncio.run(mixed(f"--output-format={form}", known=known))
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
    targets, *others = recorded_answers()
    all_and_named = (("all", "5"), ("named", "3"))
    counts = [{"metric": {"what": what}, "value": [0, number]} for what, number in all_and_named]
    known = [replace(targets, result=counts), *others]
    notes = (await mixed(known=known, warnings=("too old",))).data["notes"]
    assert "2 of 5 targets have no label node: they count as one node" in notes
    assert "Prometheus warns: too old" in notes


@pytest.mark.parametrize(
    ("flags", "verdict", "failing"),
    [
        ((), "NO-GO", {"no-go", "not-go"}),
        (("--kubelet-version=v1.37.0",), "NOT ENOUGH EVIDENCE", {"not-go"}),
    ],
)
async def test_a_pipeline_fails_on_the_verdicts_that_it_names(
    flags: tuple[str, ...], verdict: str, failing: set[str]
) -> None:
    """The report is written in any case, and nothing on stderr."""
    for fail_on in ("never", "no-go", "not-go"):
        outcome = await mixed("--output-format=markdown", f"--fail-on={fail_on}", *flags)
        assert outcome.out.startswith(f"# {verdict}\n")
        assert (outcome.code, outcome.err) == (int(fail_on in failing), "")
