"""What an input may come to: what every target is judged by."""

import asyncio
import atexit
import contextlib
import functools
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Final, TypeVar

_T = TypeVar("_T")
# Of CPU, for an input of some kilobytes; honest ones take milliseconds.
MOST_SECONDS: Final = 5.0
# Of an error, which becomes one line of a log.
_MOST_CHARACTERS: Final = 4096


@dataclass(frozen=True, slots=True)
class Target:
    """A parser: `call` gives it an input and says if that was accepted."""

    call: Callable[[bytes], bool]
    seeds: Callable[[], Iterable[bytes]]
    found: tuple[bytes, ...] = ()


def tried(target: Target, data: bytes) -> bool:
    """Whether the input was accepted; raises if it does harm, or takes too long."""
    began = time.thread_time()
    accepted = target.call(data)
    took = time.thread_time() - began
    assert took < MOST_SECONDS, f"{took:.1f} s of CPU for {len(data)} bytes"
    return accepted


@contextlib.contextmanager
def only(*allowed: type[Exception]) -> Iterator[None]:
    """Nothing else may be raised; and what is raised is short enough for a log."""
    try:
        yield
    except allowed as error:
        assert len(str(error)) < _MOST_CHARACTERS  # noqa: PT017 - it need not be raised


@functools.cache
def _runner() -> asyncio.Runner:
    runner = asyncio.Runner()
    atexit.register(runner.close)
    return runner


def completed(coroutine: Coroutine[object, object, _T]) -> _T:
    """Its result; all run in one loop, because gRPC keeps the first one."""
    return _runner().run(coroutine)


@functools.cache
def folder() -> Path:
    return Path(mkdtemp())


def require_printable(text: str) -> None:
    odd = {char for char in text if not (char.isprintable() or char == "\n")}
    assert not odd, odd
