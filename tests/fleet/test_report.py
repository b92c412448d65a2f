"""How `report`'s flags are read, and the two forms of what it writes."""

import re
import time
from pathlib import Path

import pytest

from exporter import __version__
from exporter.settings.declaring import from_text
from fleet.request import Request
from tests import ROOT, assert_golden
from tests.support.report_fleets import mixed

pytestmark = pytest.mark.quick
GOLDEN = Path(__file__).parent / "golden" / "mixed.md"
DOCS = ROOT / "docs" / "report.md"
URL = {"prometheus_url": "http://p:9090"}


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


@pytest.mark.parametrize(
    ("window", "step", "slices"),
    [
        *(("10m", 300, 2), ("1d", 300, 288), ("1d1s", 900, 97)),
        *(("7d", 1800, 336), ("30d", 7740, 335), ("366d", 94140, 336)),
    ],
)
def test_a_window_is_looked_at_in_at_most_336_slices_of_whole_minutes(
    window: str, step: int, slices: int
) -> None:
    """None shorter than what Prometheus looks back; together no less than the window."""
    request = from_text(Request, {**URL, "window": window, "end": "1794621601"})
    span = request.span
    assert (span.step, span.slices) == (step, slices)
    assert request.window <= span.seconds < request.window + step
    assert span.end % step == 0
    assert 0 <= 1794621601 - span.end < step


def test_a_window_without_an_end_ends_now() -> None:
    """To a slice."""
    before = time.time()
    span = Request(prometheus_url="http://p", window=600).span
    assert before - span.step < span.end <= time.time()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("end", "1794614400", 1794614400.0),
        ("end", "2026-11-14T00:00:00Z", 1794614400.0),
        ("end", "2026-11-14T01:30:00+01:30", 1794614400.0),
        ("node_labels", "cluster, node", ("cluster", "node")),
        ("selector", 'job="a", ', 'job="a"'),
    ],
)
def test_values_are_read_as_a_person_writes_them(name: str, text: str, value: object) -> None:
    """Times in RFC 3339 or unix seconds, labels and matchers with spaces."""
    assert getattr(from_text(Request, {**URL, name: text}), name) == value
