"""`shadow-pleg report` run in this process, and recorded answers of a Prometheus to it."""

import asyncio
import io
import json
import signal
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from exporter.__main__ import main
from tests.support.commands import Outcome
from tests.support.prometheus import Answered, standing_in
from tests.support.report_fleets import START, WINDOW

# What a real Prometheus answered about the fleet MIXED; test_queries compares and writes it.
ANSWERS = Path(__file__).parent / "golden" / "answers.json"


class Reported(Outcome):
    """How a report ended."""

    @property
    def data(self) -> dict[str, Any]:
        assert (self.code, self.err) == (0, "")
        found: dict[str, Any] = json.loads(self.out)
        return found

    def runtime(self, name: str) -> dict[str, Any]:
        """What it says about one runtime."""
        (found,) = [each for each in self.data["runtimes"] if each["runtime"] == name]
        return dict(found)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def reported(
    url: str, *flags: str, end: int = START + WINDOW, terminal: bool = False
) -> Reported:
    """Run the command in a thread: all of it but the signals, which belong to a process.

    It writes JSON about the fleets' window, which is enough for a verdict, unless flags say so.
    """
    usual = ("--output-format=json", "--window=2h", "--min-time=1h", "--min-nodes=1")
    arguments = ["report", f"--prometheus-url={url}", *usual, f"--end={end}", *flags]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signal, "signal", lambda *_: None)
        with (
            redirect_stdout(_Terminal() if terminal else io.StringIO()) as out,
            redirect_stderr(io.StringIO()) as err,
        ):
            code = await asyncio.to_thread(main, arguments)
    return Reported(code, out.getvalue(), err.getvalue())


def recorded_answers() -> list[Answered]:
    return [Answered(**each) for each in json.loads(ANSWERS.read_text(encoding="utf-8"))]


async def mixed(
    *flags: str,
    known: Sequence[Answered] = (),
    warnings: tuple[str, ...] = (),
    terminal: bool = False,
) -> Reported:
    """About the fleet MIXED, from a stand-in that answers as Prometheus did, or as is known."""
    async with standing_in(*(known or recorded_answers()), warnings=warnings) as url:
        return await reported(url, '--selector=cluster="blue"', *flags, terminal=terminal)
