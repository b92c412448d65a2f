"""Which tests run together and in which order; how long each took.

Tests of one file run together, in the order of the file: they share what is set up for the module.
What several files share (a containerd, a browser, a fleet) makes them one group: a fixture named in
`SHARED` brings its group. `docs/test-durations.md` says how long each group took when it was last
measured (`make durations`), and the longest begin first.
"""

from __future__ import annotations

import re
import resource
import time
from collections import defaultdict
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pytest

from tests import ROOT

_SLOWEST: Final = 40
_PAGE: Final = """# How long the tests take

Written by `make durations`. Seconds are those of a clock, with as many tests at a time as
`make test` runs; CPU is the tests' own and that of their children that have ended. `make test`
begins with the groups that take longest here.

{tests} tests, {wall:.0f} s, {cpu:.0f} s of CPU.

## By part

| part | tests | seconds | CPU |
|---|---:|---:|---:|
{parts}

## The slowest tests

| test | tests | seconds | CPU |
|---|---:|---:|---:|
{slowest}

## By group: what runs together in one process

| group | tests | seconds | CPU |
|---|---:|---:|---:|
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
    _, _, groups = text.partition("## By group")
    rows = re.findall(r"^\| `([^`]+)` \| \d+ \| ([\d.]+) \|", groups, re.MULTILINE)
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


@dataclass(slots=True)
class _Spent:
    """Of some tests: their number, seconds, seconds of CPU."""

    tests: set[str] = field(default_factory=set)
    seconds: float = 0.0
    cpu: float = 0.0

    def add(self, report: pytest.TestReport) -> None:
        """Count one phase of a test."""
        self.tests.add(report.nodeid)
        self.seconds += report.duration
        self.cpu += getattr(report, "cpu", 0.0)


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


class Meter:
    """Notes the CPU of each phase of a test, and of the children that ended in it."""

    def __init__(self) -> None:
        self._so_far = _cpu()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add it to the report, which travels to the process that prints."""
        report = yield
        before, self._so_far = self._so_far, _cpu()
        report.cpu = self._so_far - before  # type: ignore[attr-defined] # reports carry what they are given
        return report


class Table:
    """Writes `docs/test-durations.md`."""

    def __init__(self) -> None:
        self._groups: dict[str, _Spent] = defaultdict(_Spent)
        self._tests: dict[str, _Spent] = defaultdict(_Spent)
        self._began = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of a test."""
        nodeid, _, group = report.nodeid.rpartition("@")
        self._groups[group].add(report)
        self._tests[nodeid].add(report)

    def pytest_sessionfinish(self) -> None:
        """Write what was added."""
        TABLE.write_text(self._text(), encoding="utf-8")

    def _text(self) -> str:
        parts: dict[str, _Spent] = defaultdict(_Spent)
        for nodeid, spent in self._tests.items():
            part = parts["/".join(nodeid.partition("::")[0].split("/")[:2])]
            part.tests |= spent.tests
            part.seconds += spent.seconds
            part.cpu += spent.cpu
        slowest = dict(sorted(self._tests.items(), key=lambda each: -each[1].seconds)[:_SLOWEST])
        wall = time.monotonic() - self._began
        return _PAGE.format(
            tests=len(self._tests),
            wall=wall,
            cpu=sum(spent.cpu for spent in parts.values()),
            parts=_rows(parts),
            groups=_rows(self._groups),
            slowest=_rows(slowest),
        )


def _rows(spent: Mapping[str, _Spent]) -> str:
    rows = sorted(spent.items(), key=lambda each: (-round(each[1].seconds, 1), each[0]))
    return "\n".join(
        f"| `{name}` | {len(each.tests)} | {each.seconds:.1f} | {each.cpu:.1f} |"
        for name, each in rows
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Measure only where asked to: a table that changes with each run is of no use."""
    parser.addoption(
        "--write-durations", action="store_true", help=f"write {TABLE.name} of what each test took"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Measure in the workers, add up in the process that prints."""
    if config.getoption("--write-durations"):
        config.pluginmanager.register(Meter())
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(Table())
