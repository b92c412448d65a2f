"""Runs the quick tests on each change, two at a time, each in a process of its own.

What a function does is exchanged in a process that has collected the tests. What a module does on
import needs a process that has not imported it yet. Both are forked from this one, which imports
nothing of the exporter. Only tests that execute what is changed run, until one fails.
"""

import collections
import contextlib
import functools
import gc
import importlib
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

import coverage
import pytest

from tests import ROOT
from tests.mutants.changes import Mutant, path_of

# Of `make quick`; those in virtual time, of the whole daemon, take long and could only notice more.
QUICK: Final = "quick and not virtual_time and not soak"
_PYTEST: Final = (
    *("-q", "-p", "no:cacheprovider", "-o", "timeout=0", "--assert=plain"),
    *("--tb=no", "--hypothesis-profile=first"),
)
# The core's own tests come first: they take the least time and find the most.
_OWN: Final = ("tests/pleg/", "tests/node/", "tests/fleet/", "tests/conditions/")
_AT_ONCE: Final = 2
# They take most of the time of a start.
_HEAVY: Final = ("aiohttp.web", "grpc.aio", "hypothesis.strategies", "jinja2", "msgspec", "yaml")
# Seconds.
_SHORT: Final = 0.2
# A test that takes so many times its usual time, and so many seconds more, does not end.
_TIMES, _SLACK = 10, 2.0
# Exit codes of a process in which this module failed, of one that has said which test noticed the
# change, and of one that could not collect its tests.
_BROKEN, _TOLD, _NOTICED = 1, 71, 72

Note = Callable[[Mutant, int, str], None]


@dataclass
class Known:
    """What the tests do without a change: seconds of each, which execute a line of which file.

    `files`: which were run, all if none is named. `noticed`: who noticed a change in an earlier
    run. `explained`: changes that change nothing. `marks`: of the tests that were run.
    """

    files: tuple[str, ...] = ()
    marks: str = QUICK
    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    noticed: dict[tuple[str, str], str] = field(default_factory=dict)
    explained: set[tuple[str, str]] = field(default_factory=set)

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that execute what is changed, those that may find it soon first.

        What a module does on import concerns those that import something of it, too. Where it is
        known that none can notice, only short ones of the core try.
        """
        own = self.lines.get(str(path_of(mutant.module)), {})
        chosen = {test for line in mutant.site.lines for test in own.get(line, ())}
        if mutant.cold:
            importers = _importers(mutant.module)
            files = (own, *(self.lines.get(str(path), {}) for path in importers))
            chosen = {test for lines in files for tests in lines.values() for test in tests}
            chosen |= {test for test in self.seconds if ROOT / test.partition("::")[0] in importers}
        if mutant.key in self.explained:
            short = (test for test in chosen if self.seconds[test] < _SHORT)
            chosen = {test for test in short if test.startswith(_OWN)}
        uses = collections.Counter(self.noticed.values())

        def rank(test: str) -> tuple[bool, float, str]:
            # How many changes a second it may notice: few, if it has noticed none.
            use = (uses[test] + 0.02) / (self.seconds[test] + 0.005)
            return test != self.noticed.get(mutant.key), -use, test

        return sorted(chosen, key=rank)


class _Learning:
    """A plugin: how long each test takes."""

    def __init__(self, files: tuple[str, ...], marks: str) -> None:
        self.known = Known(files, marks)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of set-up, test and clean-up."""
        before = self.known.seconds.get(report.nodeid, 0.0)
        self.known.seconds[report.nodeid] = before + report.duration

    def run(self, kept: Path) -> int:
        """Run all tests; keep with each line of the core those that execute it."""
        os.environ["COVERAGE_FILE"] = f"{tempfile.mkdtemp()}/coverage"
        noted = ("--cov=exporter", "--cov=fleet", "--cov-context=test", "--cov-report=")
        shared = (f"-n{_AT_ONCE}", f"--dist={'load' if self.known.files else 'loadfile'}")
        code = pytest.main(
            [*_PYTEST, "-m", self.known.marks, *shared, *noted, *self.known.files], plugins=[self]
        )
        if code:
            return _NOTICED
        data = coverage.CoverageData(os.environ["COVERAGE_FILE"])
        data.read()
        for path in data.measured_files():
            self.known.lines[path] = {
                line: {each.rpartition("|")[0] for each in tests} - {""}
                for line, tests in data.contexts_by_lineno(path).items()
            }
        kept.write_bytes(pickle.dumps(self.known))
        return 0


def learn(kept: Path, log: Path, files: tuple[str, ...], marks: str = QUICK) -> None:
    """Run all tests once, without a change, or those in some files; keep what is known then."""
    if _end(_start(functools.partial(_Learning(files, marks).run, kept), log)):
        raise SystemExit(f"Tests fail without a change: {log}")


class _Judging:
    """A plugin for a process with a change: it ends with the first test that fails or hangs."""

    def __init__(self, known: Known, note: Note, mutant: Mutant | None = None) -> None:
        self.known, self.note, self.mutant = known, note, mutant

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Do not wait without end."""
        _limit(self.known.seconds[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One is enough."""
        if report.failed and self.mutant:
            self.note(self.mutant, 1, report.nodeid)
            os._exit(_TOLD)


class _Warm(_Judging):
    """Has collected the tests; for each change, a child exchanges functions and runs some."""

    def run(self, mutants: Sequence[Mutant]) -> int:
        """Judge all changes."""
        self._mutants = mutants
        return int(
            pytest.main([*_PYTEST, "-m", self.known.marks, *self.known.files], plugins=[self])
        )

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of all tests in this process, some in each child."""
        items = {item.nodeid: item for item in session.items}
        self._functions = collections.defaultdict[object, list[types.FunctionType]](list)
        for each in (some for some in gc.get_objects() if isinstance(some, types.FunctionType)):
            self._functions[_key(each.__code__)].append(each)
        gc.freeze()
        for mutant in self._mutants:
            chosen = [items[test] for test in self.known.tests_of(mutant)]
            code = _end(_start(functools.partial(self._judge, mutant, chosen)))
            if code != _TOLD:
                self.note(mutant, code, "")
        return True

    def _judge(self, mutant: Mutant, items: list[pytest.Item]) -> int:
        self.mutant = mutant
        codes = [_code(mutant)]
        for code in codes:
            codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
            for function in self._functions[_key(code)]:
                function.__code__ = code
        for item, after in zip(items, [*items, None][1:], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        return 0


class _Cold(_Judging):
    """Collects tests in a process that imports one module changed, and runs them."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """In the order that was asked for. A change may have renamed some, which do not run."""
        items[:] = [item for item in items if item.nodeid in self._tests]
        items.sort(key=lambda item: self._tests.index(item.nodeid))

    def run(self, mutant: Mutant, tests: list[str]) -> int:
        """Tests that cannot be collected notice it, too."""
        self.mutant, self._tests, code = mutant, tests, _code(mutant)
        unchanged, path = SourceFileLoader.get_code, str(path_of(mutant.module))

        def get_code(loader: SourceFileLoader, name: str) -> types.CodeType | None:
            return code if loader.path == path else unchanged(loader, name)

        SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
        _limit(_SLACK)
        try:
            files = sorted({test.partition("::")[0] for test in tests})
            done = pytest.main([*_PYTEST, *files], plugins=[self])
        except Exception:  # noqa: BLE001 - whatever importing it raises
            return _NOTICED
        fine = done in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
        return 0 if fine else _NOTICED


def judged(mutants: Sequence[Mutant], known: Known, log: Path) -> Iterator[tuple[Mutant, int, str]]:
    """Each change with the exit code of its tests and which noticed, in the order of their ends.

    0: none noticed. Positive: one did. Negative: one did not end, or ended its process.
    """
    list(map(importlib.import_module, _HEAVY))
    read, write = os.pipe()

    def note(mutant: Mutant, code: int, test: str) -> None:
        os.write(write, f"{mutants.index(mutant)} {code} {test}\n".encode())

    def work(share: Sequence[Mutant]) -> int:
        for mutant in (each for each in share if each.cold):
            tests = known.tests_of(mutant)
            # What imports the least comes first.
            own = [test for test in tests if test.startswith(_OWN)]
            stages = filter(None, (own, [test for test in tests if test not in own]))
            run = _Cold(known, note).run
            ends = (_end(_start(functools.partial(run, mutant, some))) for some in stages)
            if (code := next(filter(None, ends), 0)) != _TOLD:
                note(mutant, code, "")
        return _Warm(known, note).run([each for each in share if not each.cold])

    shares = [mutants[number::_AT_ONCE] for number in range(_AT_ONCE)]
    children = [_start(functools.partial(work, share), log) for share in shares]
    os.close(write)
    try:
        with os.fdopen(read) as lines:
            for line in lines:
                at, code, test = line.rstrip("\n").split(" ", 2)
                yield mutants[int(at)], int(code), test
    finally:
        for child in children:
            child.terminate()
    if any([_end(child) for child in children]):  # noqa: C419 - all have to be waited for
        raise SystemExit(f"A process failed: {log}")


def _start(what: Callable[[], int], log: Path | None = None) -> BaseProcess:
    """Run it in a process of its own."""
    child = multiprocessing.get_context("fork").Process(target=_alone, args=(what, log))
    child.start()
    return child


def _alone(what: Callable[[], int], log: Path | None) -> None:
    os.setpgid(0, 0)
    if log is not None:
        with log.open("ab") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
    sys.exit(what())


def _end(child: BaseProcess) -> int:
    """Wait for it: its exit code, or minus the signal that ended it."""
    child.join()
    # What a test left behind when it was ended.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid or 0, signal.SIGKILL)
    if child.exitcode == _BROKEN:
        raise ChildProcessError(child)
    return child.exitcode or 0


@functools.cache
def _importers(module: str) -> set[Path]:
    """The files that import something of that module by name."""
    folders = (ROOT / folder for folder in ("exporter", "fleet", "tests"))
    paths = (path for folder in folders for path in folder.rglob("*.py"))
    return {path for path in paths if f"from {module} import" in path.read_text(encoding="utf-8")}


def _key(code: types.CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _code(mutant: Mutant) -> types.CodeType:
    return compile(mutant.made(), str(path_of(mutant.module)), "exec")


def _limit(seconds: float) -> None:
    """The process ends after much more than that."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, _SLACK + _TIMES * seconds)
