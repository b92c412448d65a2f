"""Colour and progress are for a person at a terminal."""

import sys

import pytest

from exporter.__main__ import main
from exporter.process.terminal import Progress
from tests.support.commands import run_here
from tests.support.fixtures import Terminal

pytestmark = [pytest.mark.quick, pytest.mark.usefixtures("borrowed_process")]

NOWHERE = ("check", "--runtime-endpoint=/nowhere/cri.sock")
LAST = "this node cannot be watched"


def test_check_is_coloured_on_a_terminal_unless_it_is_told_not_to(
    monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    """The level of each line, and the last one."""
    monkeypatch.setattr(sys, "stdout", terminal.stream)
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as context:
            context.setenv(name, value)
            main(list(NOWHERE))
        assert "\x1b" not in terminal.shown()
    assert main(list(NOWHERE)) == 1
    first, *_, last = terminal.shown().splitlines()
    assert first.startswith("\x1b[31mfail \x1b[0msocket")
    assert last == f"\x1b[31m{LAST}\x1b[0m"


def test_a_pipe_has_neither_colour_nor_progress(capsys: pytest.CaptureFixture[str]) -> None:
    """What reads it is a program."""
    with Progress() as progress:
        progress.show("3 s")
    outcome = run_here(capsys, *NOWHERE)
    assert outcome.out.splitlines()[-1] == LAST
    assert "\x1b" not in outcome.out + outcome.err


def test_a_line_of_the_log_covers_the_progress(
    monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    """It is written from the left, and the progress below it."""
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    with Progress() as progress:
        progress.show("3 s")
        sys.stderr.write("level=info\n")
        progress.show("4 s")
    assert terminal.shown() == "\r\x1b[K3 s\rlevel=info\n\r\x1b[K4 s\r\r\x1b[K"
