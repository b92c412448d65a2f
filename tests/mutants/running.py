"""Runs the tests on each change, two at a time, each in a process of its own.

What a function does is exchanged in a process that has collected the tests. What a module does on
import needs a process that has not imported it yet. Both are forked from this one, which imports
nothing of the exporter. Only tests that execute what is changed run, until one fails.
"""

import collections
import contextlib
import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import coverage
import pytest

from tests.mutants.changes import Mutant, changed, path_of

# Of `make quick`; those in virtual time, of the whole daemon, take long and could only notice more.
_QUICK: Final = "quick and not virtual_time and not soak"
AT_ONCE: Final = 2
# The core's own tests come first: they take the least time and find the most.
_OWN: Final = ("tests/pleg/", "tests/report/", "tests/test_account.py")
_PYTEST: Final = (
    *("-q", "-m", _QUICK, "-p", "no:cacheprovider", "-o", "timeout=0", "--assert=plain"),
    *("--tb=no", "--hypothesis-profile=first"),
)
# A test that takes so many times its usual time, and so many seconds more, does not end.
_TIMES: Final = 10
_SLACK: Final = 2.0
# They take most of the time of a start.
_LIBRARIES: Final = (
    "aiohttp.web",
    "grpc.aio",
    "hypothesis.strategies",
    "jinja2",
    "msgspec",
    "yaml",
)

# The exit code of a process in which not a test, but this module failed.
_BROKEN: Final = 70

Tell = Callable[[Mutant, int], None]


@dataclass(slots=True)
class Known:
    """What the tests do without a change: seconds of each, and which of them execute a line."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict)

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that execute what is changed, those that may find it soon first."""
        lines = self.lines[mutant.module]
        chosen = (lines.get(line, set()) for line in (lines if mutant.cold else mutant.lines))
        return sorted(set[str]().union(*chosen), key=self._rank)

    def _rank(self, test: str) -> tuple[bool, float, str]:
        return not test.startswith(_OWN), self.seconds[test], test


class _Learning:
    """A plugin: which tests execute a line, and how long each takes, in a share of the files."""

    def __init__(self, modules: Sequence[str], share: int) -> None:
        self.known, self._share = Known(), share
        self._paths = {module: str(path_of(module)) for module in modules}
        include = list(self._paths.values())
        self._trace = coverage.Coverage(data_file=None, config_file=False, include=include)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Take a share."""
        files = sorted({_file(item.nodeid) for item in items})
        items[:] = [i for i in items if files.index(_file(i.nodeid)) % AT_ONCE == self._share]

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
        code = pytest.main(list(_PYTEST), plugins=[self])
        self._trace.stop()
        data = self._trace.get_data()
        for module, path in self._paths.items():
            lines = data.contexts_by_lineno(path)
            self.known.lines[module] = {line: {*tests} - {""} for line, tests in lines.items()}
        result.write_bytes(pickle.dumps(self.known))
        return int(code)


class _Judging:
    """A plugin for a process with a change: it ends with the first test that fails or hangs."""

    def __init__(self, known: Known) -> None:
        self.known = known

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Do not wait for ever."""
        _limit(self.known.seconds[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One is enough."""
        if report.failed:
            os._exit(1)


class _Warm(_Judging):
    """Has collected the tests; for each change, a child exchanges functions and runs some."""

    def __init__(self, known: Known, changes: Iterable[Mutant], tell: Tell) -> None:
        super().__init__(known)
        self._changes, self._tell = changes, tell
        self._functions = collections.defaultdict[object, list[types.FunctionType]](list)

    def run(self) -> int:
        """Judge all changes."""
        files = {
            _file(t) for lines in self.known.lines.values() for t in set().union(*lines.values())
        }
        return int(pytest.main([*_PYTEST, *sorted(files)], plugins=[self]))

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of all tests in this process, some in each child."""
        items = {item.nodeid: item for item in session.items}
        for each in gc.get_objects():
            if isinstance(each, types.FunctionType):
                self._functions[_key(each.__code__)].append(each)
        gc.freeze()
        for mutant in self._changes:
            chosen = [items[test] for test in self.known.tests_of(mutant)]
            self._tell(mutant, _end(_start(functools.partial(self._judge, mutant, chosen))))
        return True

    def _judge(self, mutant: Mutant, items: list[pytest.Item]) -> int:
        codes = [_code(mutant)]
        for code in codes:
            codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
            for function in self._functions[_key(code)]:
                function.__code__ = code
        for item, after in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        return 0


class _Importing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports that module changed."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        """It knows this module only."""
        if name != self._mutant.module:
            return None
        return importlib.util.spec_from_file_location(name, path_of(name), loader=self)

    def exec_module(self, module: types.ModuleType) -> None:
        """As any other source."""
        exec(_code(self._mutant), vars(module))  # noqa: S102 - this project's own


class _Cold(_Judging):
    """Collects tests in a process that imports one module changed, and runs them."""

    def __init__(self, known: Known, mutant: Mutant, tests: Sequence[str]) -> None:
        super().__init__(known)
        self._mutant, self._tests = mutant, {test: at for at, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """In the order that was asked for. A change may have renamed some, which do not run."""
        items[:] = [item for item in items if item.nodeid in self._tests]
        items.sort(key=lambda item: self._tests[item.nodeid])

    def run(self) -> int:
        """Tests that cannot be collected notice it, too."""
        sys.meta_path.insert(0, _Importing(self._mutant))
        _limit(_SLACK)
        try:
            code = pytest.main([*_PYTEST, *sorted({*map(_file, self._tests)})], plugins=[self])
        except Exception:  # noqa: BLE001 - whatever importing it raises
            return 1
        return int(code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED})


def prepare() -> None:
    """Import what all processes need."""
    for name in _LIBRARIES:
        importlib.import_module(name)


def learnt(modules: Sequence[str], log: Path) -> Known:
    """Run all tests once, without a change."""
    known = Known(lines={module: {} for module in modules})
    with tempfile.TemporaryDirectory() as folder:
        results = [Path(folder, str(share)) for share in range(AT_ONCE)]
        children = [
            _start(functools.partial(_Learning(modules, share).run, result), log)
            for share, result in enumerate(results)
        ]
        ends = [_end(child) for child in children]
        if any(ends):
            raise SystemExit(f"Tests fail without a change: {log}")
        for result in results:
            some: Known = pickle.loads(result.read_bytes())  # noqa: S301 - written above
            known.seconds |= some.seconds
            for module, lines in some.lines.items():
                for line, tests in lines.items():
                    known.lines[module].setdefault(line, set()).update(tests)
    return known


def judged(mutants: Sequence[Mutant], known: Known, log: Path) -> Iterator[tuple[Mutant, int]]:
    """Each change with the exit code of its tests, in the order in which they end.

    0: none noticed. Positive: one did. Negative: one did not end, or ended its process.
    """
    cold, warm = _Shared(m for m in mutants if m.cold), _Shared(m for m in mutants if not m.cold)
    read, write = os.pipe()

    def tell(mutant: Mutant, code: int) -> None:
        os.write(write, f"{mutants.index(mutant)} {code}\n".encode())

    def work() -> int:
        for mutant in cold:
            tell(mutant, _judged_cold(mutant, known))
        return _Warm(known, warm, tell).run()

    children = [_start(work, log) for _ in range(AT_ONCE)]
    os.close(write)
    try:
        with os.fdopen(read) as lines:
            for line in lines:
                at, code = map(int, line.split())
                yield mutants[at], code
    finally:
        for child in children:
            os.killpg(child, signal.SIGTERM)
    if any([_end(child) for child in children]):  # noqa: C419 - all have to be waited for
        raise SystemExit(f"A process failed: {log}")


class _Shared:
    """Changes for several processes: each takes the next one that none has taken."""

    def __init__(self, mutants: Iterable[Mutant]) -> None:
        self._mutants = list(mutants)
        self._taken = multiprocessing.get_context("fork").Value("i", 0)

    def __iter__(self) -> Iterator[Mutant]:
        while True:
            with self._taken.get_lock():
                at = self._taken.value
                self._taken.value += 1
            if at >= len(self._mutants):
                return
            yield self._mutants[at]


def _judged_cold(mutant: Mutant, known: Known) -> int:
    """The core's own tests import the least, so the others run only if those do not notice."""
    tests = known.tests_of(mutant)
    own = [test for test in tests if test.startswith(_OWN)]
    return _end(_start(_Cold(known, mutant, own).run)) or _end(
        _start(_Cold(known, mutant, tests[len(own) :]).run)
    )


def _start(what: Callable[[], int], log: Path | None = None) -> int:
    """Run it in a process of its own."""
    if child := os.fork():
        return child
    code = _BROKEN
    try:
        os.setpgid(0, 0)
        if log is not None:
            output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(output, 1)
            os.dup2(output, 2)
        code = what()
    except BaseException:  # noqa: BLE001 - the process ends here
        traceback.print_exc()
    finally:
        os._exit(code)


def _end(child: int) -> int:
    """Wait for it: its exit code, or minus the signal that ended it."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # What a test left behind when it was ended.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if code == _BROKEN:
        raise ChildProcessError(child)
    return code


def _file(test: str) -> str:
    return test.partition("::")[0]


def _key(code: types.CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _code(mutant: Mutant) -> types.CodeType:
    return compile(changed(mutant), str(path_of(mutant.module)), "exec")


def _limit(seconds: float) -> None:
    """The process ends after much more than that."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, _SLACK + _TIMES * seconds)
