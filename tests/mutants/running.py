"""Runs the tests on each change, two at a time, each in a process of its own.

What a function does is exchanged in a process that has collected the tests. What a module does on
import needs a process that has not imported it yet. Both are forked from this one, which imports
nothing of the exporter. Only tests that execute what is changed run, until one fails.
"""

import collections
import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import multiprocessing
import os
import signal
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.mutants.changes import Mutant, changed
from tests.mutants.learning import OWN, PYTEST, Known, file_of
from tests.mutants.processes import AT_ONCE, end, start
from tests.mutants.sites import path_of

# A test that takes so many times its usual time, and so many seconds more, does not end.
_TIMES: Final = 10
_SLACK: Final = 2.0
# The exit code of a process that has told which test noticed the change.
_TOLD: Final = 71
# What became of a change: the exit code of its tests, and the test that noticed it.
Tell = Callable[[Mutant, int, str], None]


class _Judging:
    """A plugin for a process with a change: it ends with the first test that fails or hangs."""

    def __init__(self, known: Known, tell: Tell, mutant: Mutant | None = None) -> None:
        self.known, self.tell, self.mutant = known, tell, mutant

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Do not wait for ever."""
        _limit(self.known.seconds[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One is enough."""
        if report.failed and self.mutant:
            self.known.count(report.nodeid)
            self.tell(self.mutant, 1, report.nodeid)
            os._exit(_TOLD)


class _Warm(_Judging):
    """Has collected the tests; for each change, a child exchanges functions and runs some."""

    def __init__(self, known: Known, changes: Iterable[Mutant], tell: Tell) -> None:
        super().__init__(known, tell)
        self._changes = changes
        self._functions = collections.defaultdict[object, list[types.FunctionType]](list)

    def run(self) -> int:
        """Judge all changes."""
        return int(pytest.main(list(PYTEST), plugins=[self]))

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of all tests in this process, some in each child."""
        items = {item.nodeid: item for item in session.items}
        for each in gc.get_objects():
            if isinstance(each, types.FunctionType):
                self._functions[_key(each.__code__)].append(each)
        gc.freeze()
        for mutant in self._changes:
            chosen = [items[test] for test in self.known.tests_of(mutant)]
            code = end(start(functools.partial(self._judge, mutant, chosen)))
            if code != _TOLD:
                self.tell(mutant, code, "")
        return True

    def _judge(self, mutant: Mutant, items: list[pytest.Item]) -> int:
        self.mutant = mutant
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

    def __init__(self, known: Known, tell: Tell, mutant: Mutant, tests: Sequence[str]) -> None:
        super().__init__(known, tell, mutant)
        self._changed, self._tests = mutant, {test: at for at, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """In the order that was asked for. A change may have renamed some, which do not run."""
        items[:] = [item for item in items if item.nodeid in self._tests]
        items.sort(key=lambda item: self._tests[item.nodeid])

    def run(self) -> int:
        """Tests that cannot be collected notice it, too."""
        sys.meta_path.insert(0, _Importing(self._changed))
        _limit(_SLACK)
        try:
            code = pytest.main([*PYTEST, *sorted({*map(file_of, self._tests)})], plugins=[self])
        except Exception:  # noqa: BLE001 - whatever importing it raises
            return 1
        return int(code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED})


def judged(mutants: Sequence[Mutant], known: Known, log: Path) -> Iterator[tuple[Mutant, int, str]]:
    """Each change with the exit code of its tests and which noticed, in the order of their ends.

    0: none noticed. Positive: one did. Negative: one did not end, or ended its process.
    """
    known.share()
    cold, warm = _Shared(m for m in mutants if m.cold), _Shared(m for m in mutants if not m.cold)
    read, write = os.pipe()

    def tell(mutant: Mutant, code: int, test: str) -> None:
        os.write(write, f"{mutants.index(mutant)} {code} {test}\n".encode())

    def work() -> int:
        for mutant in cold:
            code = _judged_cold(mutant, known, tell)
            if code != _TOLD:
                tell(mutant, code, "")
        return _Warm(known, warm, tell).run()

    children = [start(work, log) for _ in range(AT_ONCE)]
    os.close(write)
    try:
        with os.fdopen(read) as lines:
            for line in lines:
                at, code, test = line.rstrip("\n").split(" ", 2)
                yield mutants[int(at)], int(code), test
    finally:
        for child in children:
            os.killpg(child, signal.SIGTERM)
    if any([end(child) for child in children]):  # noqa: C419 - all have to be waited for
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


def _judged_cold(mutant: Mutant, known: Known, tell: Tell) -> int:
    """What imports the least comes first: the test that noticed before, then the core's own."""
    tests = known.tests_of(mutant)
    own = [test for test in tests if test.startswith(OWN)]
    others = [test for test in tests if not test.startswith(OWN)]
    first = tests[:1] if mutant.key in known.noticed else []
    stages = filter(None, (first, own, others))
    ends = (end(start(_Cold(known, tell, mutant, some).run)) for some in stages)
    return next(filter(None, ends), 0)


def _key(code: types.CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _code(mutant: Mutant) -> types.CodeType:
    return compile(changed(mutant), str(path_of(mutant.module)), "exec")


def _limit(seconds: float) -> None:
    """The process ends after much more than that."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, _SLACK + _TIMES * seconds)
