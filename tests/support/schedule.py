"""Which tests run together and in which order; how long each took.

Tests of one file, or with a fixture of `SHARED`, run together; the longest groups begin first.
"""

import re
import time
from collections import defaultdict
from collections.abc import Generator, Mapping
from typing import Final

import pytest

from tests import ROOT

_PAGE: Final = """# How long the tests take

Written by `make durations`. Seconds are those of a clock, with as many tests at a time as
`make test` runs; it begins with the groups that take longest here. A group is what runs together
in one process. All tests together took {wall:.0f} s.

{groups}
"""
TABLE: Final = ROOT / "docs" / "test-durations.md"
# What a worker keeps for the whole session, and tests of several files use.
SHARED: Final[Mapping[str, str]] = {"both_lives": "dashboards"}


def group_of(item: pytest.Item) -> str:
    """The tests that must run in the same worker, by the name of what they share."""
    marker = item.get_closest_marker("xdist_group")
    if marker is not None:
        return str(marker.args[0] if marker.args else marker.kwargs["name"])
    for fixture in getattr(item, "fixturenames", ()):
        if fixture in SHARED:
            return SHARED[fixture]
    return item.nodeid.partition("::")[0]


def known() -> dict[str, float]:
    """Seconds that each group took, as far as the table knows it."""
    text = TABLE.read_text(encoding="utf-8") if TABLE.exists() else ""
    rows = re.findall(r"^\| `([^`]+)` \| ([\d.]+) \|", text, re.MULTILINE)
    return {group: float(seconds) for group, seconds in rows}


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Longest groups first, unknown ones last. Before xdist reads the marks."""
    seconds = known()
    groups = {item: group_of(item) for item in items}
    if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        items.sort(key=lambda item: (-seconds.get(groups[item], 0.0), groups[item]))
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(groups[item]))
    return (yield)


class Table:
    """Writes `docs/test-durations.md`."""

    def __init__(self) -> None:
        self._seconds = defaultdict[str, float](float)
        self._began = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of a test."""
        self._seconds[report.nodeid.rpartition("@")[2]] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write what was added."""
        rows = sorted(self._seconds.items(), key=lambda row: (-round(row[1], 1), row[0]))
        lines = (f"| `{name}` | {took:.1f} |" for name, took in rows)
        groups = "\n".join(["| group | seconds |", "|---|---:|", *lines])
        text = _PAGE.format(wall=time.monotonic() - self._began, groups=groups)
        TABLE.write_text(text, encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Measure only where asked to: a table that changes with each run is of no use."""
    parser.addoption(
        "--write-durations", action="store_true", help=f"write {TABLE.name} of what each test took"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Add up in the process that prints."""
    if config.getoption("--write-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Table())
