"""Names: in which file a module has its tests, what lists of changes name."""

import re

import pytest

from tests import ROOT
from tests.mutants.__main__ import unknown

pytestmark = pytest.mark.quick


def test_each_module_has_tests_of_its_name_or_a_line_in_the_list() -> None:
    tests, package = ROOT / "tests", ROOT / "exporter"
    files = {path.stem.removeprefix("test_") for path in tests.rglob("test_*.py")}
    modules = {
        str(path.relative_to(package).with_suffix(""))
        for path in package.rglob("*.py")
        if not path.stem.endswith(("__", "_pb2")) and path.stem not in files
    }
    text = (tests / "README.md").read_text(encoding="utf-8")
    names = re.findall(r"`([a-z_./]+)`", text.partition("| modules |")[2].partition("\n\n")[0])
    listed = {each for each in names if not each.endswith(".py")}
    assert listed == modules, "the table in tests/README.md"
    assert [each for each in names if each.endswith(".py") and not (tests / each).exists()] == []


def test_a_change_that_survives_with_a_reason_is_one_of_the_code() -> None:
    assert not unknown(), "tests/mutants/survivors.toml: rename or remove these"
