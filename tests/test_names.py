"""How a failure begins: with a sentence that says what does not hold."""

import ast

import pytest

from tests import ROOT
from tests.support.sentences import flaw

pytestmark = pytest.mark.quick


def test_every_tests_name_is_a_sentence_that_stands_alone() -> None:
    """A failure begins with it; the docstring, which follows, need not repeat it."""
    flaws = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} {why}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and (why := flaw(node.name))
    ]
    assert flaws == []


@pytest.mark.parametrize(
    "name",
    [
        *("test_it_is_counted", "test_both_are_back_soon", "test_one_that_ended_is_gone"),
        *("test_a_rule", "test_the_whole_recording_in_short", "test_even_if_nothing_comes"),
    ],
)
def test_a_name_that_says_nothing_by_itself_is_found(name: str) -> None:
    """A pronoun of nothing, or a title."""
    assert flaw(name)


def test_a_failure_begins_with_its_sentence(request: pytest.FixtureRequest) -> None:
    """Instead of its identifier: pytest heads a report with the last part of its location."""
    call = pytest.CallInfo.from_call(lambda: None, "call")
    report = request.node.ihook.pytest_runtest_makereport(item=request.node, call=call)
    assert report.head_line == "A failure begins with its sentence"
