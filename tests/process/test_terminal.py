"""Colour and progress are for a person at a terminal."""

import sys
from pathlib import Path

import pytest

from exporter.__main__ import main
from exporter.process.terminal import Progress
from tests.support.commands import run_here
from tests.support.fixtures import Terminal
from tests.support.tape import recording_of

pytestmark = [pytest.mark.quick, pytest.mark.usefixtures("borrowed_process")]

NOWHERE = ("check", "--runtime-endpoint=/nowhere/cri.sock")
LAST = "this node cannot be watched"


def test_check_is_coloured_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    """The level of each line, and the last one."""
    monkeypatch.setattr(sys, "stdout", terminal.stream)
    assert main(list(NOWHERE)) == 1
    first, *_, last = terminal.shown().splitlines()
    assert first.startswith("\x1b[31mfail \x1b[0msocket")
    assert last == f"\x1b[31m{LAST}\x1b[0m"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_can_be_without_colour(
    monkeypatch: pytest.MonkeyPatch, terminal: Terminal, name: str, value: str
) -> None:
    """Because its user says so, or because it has none."""
    monkeypatch.setattr(sys, "stdout", terminal.stream)
    monkeypatch.setenv(name, value)
    main(list(NOWHERE))
    assert "\x1b" not in terminal.shown()


def test_a_pipe_has_neither_colour_nor_progress(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What reads it is a program."""
    assert run_here(capsys, *NOWHERE).out.splitlines()[-1] == LAST
    recording = tmp_path / "r.gz"
    recording_of(recording)
    outcome = run_here(capsys, "replay", str(recording))
    assert "\x1b" not in outcome.out + outcome.err


def test_replay_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, terminal: Terminal, tmp_path: Path
) -> None:
    """In per cent of the file; the line is removed at the end."""
    recording = tmp_path / "r.gz"
    recording_of(recording)
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    assert main(["replay", str(recording)]) == 0
    shown = terminal.shown()
    assert shown.startswith("\r\x1b[Kreplaying: 0 %\r")
    assert shown.endswith("\r\x1b[K")


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
