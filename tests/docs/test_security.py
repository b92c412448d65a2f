"""docs/security.md: every attack has its answer and a test that exists."""

import ast
import functools
import re
from typing import Final

import pytest

from tests import ROOT

pytestmark = pytest.mark.quick

_PAGE: Final = ROOT / "docs" / "security.md"
_HEAD: Final = "| attack | what happens | test |"
_RULE: Final = "|---|---|---|"
_TEST: Final = re.compile(r"\[test\]\(\.\./(tests/[a-z0-9_/]+\.py)#(test_\w+)\)")


def _rows() -> list[tuple[str, ...]]:
    """The three cells of each attack."""
    lines = [line for line in _PAGE.read_text().splitlines() if line.startswith("|")]
    cells = (line.strip("|").split("|") for line in lines if line not in (_HEAD, _RULE))
    return [tuple(cell.strip() for cell in row) for row in cells]


@functools.cache
def _tests_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, functions)}


def test_every_attack_has_its_answer_and_a_test_that_exists() -> None:
    """A test that was renamed or removed is missed here."""
    rows = _rows()
    assert rows
    for attack, answer, proof in rows:
        assert attack, answer
        assert answer, attack
        named = _TEST.findall(proof)
        assert named, attack
        assert _TEST.sub("", proof).strip(", ") == "", attack
        for path, name in named:
            assert (ROOT / path).is_file(), f"{attack}: there is no {path}"
            assert name in _tests_in(path), f"{attack}: {path} has no {name}"


def test_no_attack_is_listed_twice() -> None:
    """Each is where a reader looks for it."""
    attacks = [attack for attack, _, _ in _rows()]
    assert len(set(attacks)) == len(attacks)
