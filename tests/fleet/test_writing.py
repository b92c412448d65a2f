"""The two forms of a report, and its progress."""

import re
from pathlib import Path

import pytest

from exporter import __version__
from tests import ROOT, assert_golden
from tests.fleet.conftest import mixed

pytestmark = pytest.mark.quick
GOLDEN = Path(__file__).parent / "golden" / "mixed.md"
DOCS = ROOT / "docs" / "report.md"


async def test_markdown_is_the_golden_one() -> None:
    outcome = await mixed("--output-format=markdown")
    text = outcome.out.replace(f"shadow-pleg {__version__}", "shadow-pleg VERSION")
    assert_golden(text, GOLDEN)


def keys(data: object, path: str = "") -> set[str]:
    """Every key of a JSON document, as docs/report.md writes them."""
    if isinstance(data, dict):
        below = (keys(value, f"{path}.{name}" if path else name) for name, value in data.items())
        return set().union({path} - {""}, *below)
    if isinstance(data, list):
        return set().union({f"{path}[]"}, *(keys(each, f"{path}[]") for each in data))
    return {path}


async def test_every_key_of_the_json_is_documented_and_none_that_is_not_there() -> None:
    """Both directions; the keys that `fleet` and `runtimes[]` share are documented once."""
    found = keys((await mixed()).data)
    text = DOCS.read_text(encoding="utf-8")
    (table,) = re.findall(r"<!-- json:begin -->\n(.*?)<!-- json:end -->", text, re.DOTALL)
    keys_of_rows = re.findall(r"^\| (`.+`) \|[^|]*\|$", table, re.MULTILINE)
    named = [key for row in keys_of_rows for key in re.findall("`([^`]+)`", row)]
    # `a.b/c` is short for `a.b` and `a.c`.
    parts = [key.rpartition(".") for key in named]
    documented = {path + dot + name for path, dot, names in parts for name in names.split("/")}
    leaves = {
        key for key in found if not any(other.startswith((f"{key}.", f"{key}[")) for other in found)
    }
    shared = {key.removeprefix("fleet.") for key in leaves if key.startswith("fleet.")}
    own = {key for key in leaves if not key.startswith("fleet.")}
    own -= {f"runtimes[].{key}" for key in shared}
    assert documented == own | shared
