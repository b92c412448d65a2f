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
Tell = Callable[[Mutant, int], None]


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
            self._tell(mutant, end(start(functools.partial(self._judge, mutant, chosen))))
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
            code = pytest.main([*PYTEST, *sorted({*map(file_of, self._tests)})], plugins=[self])
        except Exception:  # noqa: BLE001 - whatever importing it raises
            return 1
        return int(code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED})


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

    children = [start(work, log) for _ in range(AT_ONCE)]
    os.close(write)
    try:
        with os.fdopen(read) as lines:
            for line in lines:
                at, code = map(int, line.split())
                yield mutants[at], code
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


def _judged_cold(mutant: Mutant, known: Known) -> int:
    """The core's own tests import the least, so the others run only if those do not notice."""
    tests = known.tests_of(mutant)
    own = sum(test.startswith(OWN) for test in tests)
    stages = filter(None, (tests[:own], tests[own:]))
    ends = (end(start(_Cold(known, mutant, some).run)) for some in stages)
    return next(filter(None, ends), 0)


def _key(code: types.CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _code(mutant: Mutant) -> types.CodeType:
    return compile(changed(mutant), str(path_of(mutant.module)), "exec")


def _limit(seconds: float) -> None:
    """The process ends after much more than that."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, _SLACK + _TIMES * seconds)
