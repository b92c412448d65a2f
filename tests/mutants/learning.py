"""What the tests do without a change: which of them execute a line, and how long each takes."""

import functools
import multiprocessing
import pickle
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import coverage
import pytest

from tests import ROOT
from tests.mutants.changes import Mutant
from tests.mutants.processes import AT_ONCE, end, start
from tests.mutants.sites import path_of

# Of `make quick`; those in virtual time, of the whole daemon, take long and could only notice more.
_QUICK: Final = "quick and not virtual_time and not soak"
# The core's own tests come first: they take the least time and find the most.
OWN: Final = ("tests/pleg/", "tests/fleet/", "tests/test_account.py")
PYTEST: Final = (
    *("-q", "-m", _QUICK, "-p", "no:cacheprovider", "-o", "timeout=0", "--assert=plain"),
    *("--tb=no", "--hypothesis-profile=first"),
)


# Seconds.
_SHORT: Final = 0.2


@dataclass
class Known:
    """What the tests do without a change: seconds of each; which execute a line of which file."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    # Which test noticed a change in an earlier run: it probably does again.
    noticed: dict[tuple[str, str], str] = field(default_factory=dict)
    # Of which changes it is known that the program is the same.
    explained: set[tuple[str, str]] = field(default_factory=set)

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that execute what is changed, those that may find it soon first.

        What a module does on import concerns those that import something of it, too. Where it is
        known that none can notice, only short ones of the core try.
        """
        own = self.lines.get(str(path_of(mutant.module)), {})
        chosen = [own.get(line, set()) for line in mutant.lines]
        if mutant.cold:
            importers = _importers(mutant.module)
            files = (self.lines.get(str(path), {}) for path in importers)
            chosen = [tests for lines in (own, *files) for tests in lines.values()]
            chosen.append({test for test in self.seconds if ROOT / file_of(test) in importers})
        if mutant.key in self.explained:
            chosen = [{test for tests in chosen for test in tests if self._is_short(test)}]
        first = self.noticed.get(mutant.key)

        def rank(test: str) -> tuple[bool, float, str]:
            return test != first, -self._use(test), test

        return sorted(set[str]().union(*chosen), key=rank)

    def _is_short(self, test: str) -> bool:
        return test.startswith(OWN) and self.seconds[test] < _SHORT

    def share(self) -> None:
        """From now on, processes that are forked count together what each test notices."""
        self._places = {test: place for place, test in enumerate(self.seconds)}
        self._noticing = multiprocessing.get_context("fork").Array("i", len(self.seconds))
        for test in set(self.noticed.values()) & set(self.seconds):
            self.count(test)

    def count(self, test: str) -> None:
        """It has noticed a change."""
        self._noticing[self._places[test]] += 1

    def _use(self, test: str) -> float:
        """How many changes a second it may notice: few, if it has noticed none."""
        noticed: int = self._noticing[self._places[test]]
        return (noticed + 0.02) / (self.seconds[test] + 0.005)


class _Learning:
    """A plugin: which tests execute a line, and how long each takes, in a share of the files."""

    def __init__(self, share: int) -> None:
        self.known, self._share = Known(), share
        include = [f"{ROOT}/exporter/*", f"{ROOT}/fleet/*"]
        self._trace = coverage.Coverage(data_file=None, config_file=False, include=include)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Take a share."""
        files = sorted({file_of(item.nodeid) for item in items})
        items[:] = [i for i in items if files.index(file_of(i.nodeid)) % AT_ONCE == self._share]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note the time, and for whom lines are executed."""
        self._trace.switch_context(item.nodeid)
        began = time.monotonic()
        result = yield
        self.known.seconds[item.nodeid] = time.monotonic() - began
        return result

    def run(self, result: Path) -> int:
        """Run the tests without a change; all must pass."""
        self._trace.start()
        code = pytest.main(list(PYTEST), plugins=[self])
        self._trace.stop()
        data = self._trace.get_data()
        for path in data.measured_files():
            lines = data.contexts_by_lineno(path)
            self.known.lines[path] = {line: {*tests} - {""} for line, tests in lines.items()}
        result.write_bytes(pickle.dumps(self.known))
        return int(code)


def learnt(log: Path) -> Known:
    """Run all tests once, without a change."""
    known = Known()
    with tempfile.TemporaryDirectory() as folder:
        results = [Path(folder, str(share)) for share in range(AT_ONCE)]
        children = [
            start(functools.partial(_Learning(share).run, result), log)
            for share, result in enumerate(results)
        ]
        ends = [end(child) for child in children]
        if any(ends):
            raise SystemExit(f"Tests fail without a change: {log}")
        for result in results:
            some: Known = pickle.loads(result.read_bytes())  # noqa: S301 - written above
            known.seconds |= some.seconds
            for path, lines in some.lines.items():
                merged = known.lines.setdefault(path, {})
                for line, tests in lines.items():
                    merged.setdefault(line, set()).update(tests)
    return known


@functools.cache
def _importers(module: str) -> set[Path]:
    """The files that import something of that module by name."""
    paths = (
        path for folder in ("exporter", "fleet", "tests") for path in (ROOT / folder).rglob("*.py")
    )
    return {path for path in paths if f"from {module} import" in path.read_text(encoding="utf-8")}


def file_of(test: str) -> str:
    """Its file, relative to the root."""
    return test.partition("::")[0]
