"""The command line: one line and exit code 2 for bad usage; `--help` and `--version`."""

import os
import platform
import re
import shlex
import socket
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from exporter import __version__
from exporter.cli import all_commands
from exporter.errors import say
from exporter.settings.config import Config
from exporter.settings.declaring import flags_of
from tests import ROOT, table
from tests.support.commands import run_here

pytestmark = [pytest.mark.quick, pytest.mark.usefixtures("borrowed_process", "wide_terminal")]

BAD = table(__file__, "usage.yaml")
COMMANDS = all_commands()


@pytest.mark.parametrize("arguments", BAD)
def test_bad_usage_is_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str], arguments: str
) -> None:
    outcome = run_here(capsys, *shlex.split(arguments))
    assert f"{outcome.complaint(2)}\n".startswith(BAD[arguments])


@pytest.mark.parametrize("kind", ["nothing", "left behind", "a file"])
def test_a_recording_without_a_runtime_is_refused(
    capsys: pytest.CaptureFixture[str], folder: Path, kind: str
) -> None:
    path, file = folder / "cri.sock", folder / "node.jsonl.gz"
    if kind == "a file":
        path.touch()
    elif kind != "nothing":
        socket.create_server(str(path), family=socket.AF_UNIX).close()
    flags = (f"--runtime-endpoint={path}", f"--output={file}", "--duration=1s")
    outcome = run_here(capsys, "record", *flags, "--log.level=error")
    said = {
        "nothing": f"no runtime socket at unix://{path}: ",
        "left behind": "Version: unavailable: ",
        "a file": f"--runtime-endpoint: {path} is not a socket: name the CRI socket",
    }
    assert outcome.complaint(2 if kind == "a file" else 1).startswith(said[kind])
    assert not file.exists()


@pytest.mark.parametrize(
    ("asked", "redirected", "code", "said"),
    [
        ("condition ContainerEventsIncomplete --web.listen-address=:1", ">/dev/full", 2, ""),
        ("serve --print-config", ">/dev/full", 1, "stdout: No space left on device"),
        ("serve --help", ">&-", 1, "stdout: Bad file descriptor"),
        # Nobody reads that.
        ("serve --print-config", "", 1, ""),
        ("record --output=-", ">&-", 2, "--output: stdout cannot be written (Bad file descriptor)"),
    ],
)
def test_an_answer_that_cannot_be_written_is_one_line_and_no_problem_of_the_node(
    asked: str, redirected: str, code: int, said: str
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        ("sh", "-c", f"exec {sys.executable} -m exporter {asked} {redirected}"),
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": ""},
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (code, said and f"shadow-pleg: {said}\n")


def test_text_that_the_encoding_of_stdout_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    written = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written, "latin-1"))
    say("ä\udcff…\n")
    assert written.getvalue() == b"\xe4\\udcff\\u2026\n"


@pytest.mark.parametrize("kind", ["file", "folder", "nothing"])
def test_the_embedded_runtime_replaces_no_file(
    capsys: pytest.CaptureFixture[str], folder: Path, kind: str
) -> None:
    path = folder / "taken" if kind != "nothing" else folder / "no" / "cri.sock"
    if kind == "file":
        path.write_text("precious", encoding="ascii")
    elif kind == "folder":
        path.mkdir()
    outcome = run_here(capsys, "simulate", f"--socket={path}", "--pods=1")
    assert outcome.complaint(2).startswith(f"--socket: cannot serve on unix://{path}: ")
    assert path.exists() == (kind != "nothing")


@pytest.fixture
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")


def help_of(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[dict[str, str], str]:
    """What `--help` says of each flag that takes a value, and the whole text."""
    outcome = run_here(capsys, *command, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    # A flag begins a line, indented by two; a long one's meaning is on the next.
    lines = re.findall(r"^  (--[\w.-]+) \S+\s+(\S.*)$", outcome.out, re.MULTILINE)
    return dict(lines), outcome.out


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_explains_the_flags_that_it_has(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    meaning, flags = COMMANDS[command].text, COMMANDS[command].flags
    said, text = help_of(capsys, command)
    assert set(said) == {each.flag for each in flags if each.metavar}
    for each in flags:
        shown = said.get(each.flag, text)
        assert not each.metavar or shown.startswith(each.help)
        assert (f"default: {each.default}" if each.default else "") in shown
        assert each.env in shown
    assert f"\n{meaning[0].upper()}{meaning[1:]}.\n" in text
    assert re.search(rf"^ +{command}\s+{re.escape(meaning)}$", help_of(capsys)[1], re.MULTILINE)
    assert re.search(r"\nExit codes: 0 .*, 1 .*, 2 .*\.\n$", text)


def test_no_command_takes_a_flag_that_does_nothing_there() -> None:
    """The demo's runtime has no kubelet, and cgroups of its own; a recording serves nothing."""
    serve, demo, record = (
        {each.flag for each in COMMANDS[name].flags} for name in ("serve", "demo", "record")
    )
    kubelet = {each for each in serve if each.startswith("--kubelet-")}
    assert len(kubelet) == 2
    serve.remove("--print-config")
    assert serve - demo == kubelet | {"--runtime-endpoint", "--web.config.file", "--cgroup-root"}
    assert serve - record == {each for each in serve if each.startswith("--web.")}


def test_print_config_says_where_each_value_comes_from(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHADOW_PLEG_RELIST_PERIOD", "20s")
    monkeypatch.setenv("SHADOW_PLEG_MISSED_GRACE", "7s")
    monkeypatch.delenv("NODE_NAME", raising=False)
    outcome = run_here(capsys, "serve", "--print-config", "--missed-grace=9s")
    assert (outcome.code, outcome.err) == (0, "")
    lines = dict(re.split(" +# ", line) for line in outcome.out.splitlines())
    assert len(lines) == len(flags_of(Config))
    assert lines["--relist-period=20s"] == "SHADOW_PLEG_RELIST_PERIOD"
    assert lines["--missed-grace=9s"] == "--missed-grace"
    assert lines["--relist-timeout=30s"] == "default"
    assert lines[f"--node-name={socket.gethostname()}"] == "default"
    again = run_here(capsys, "serve", "--print-config", *lines)
    assert [line.split()[0] for line in again.out.splitlines()] == list(lines)
    assert run_here(capsys, "serve", "--print-config", "--missed-grace=x").code == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("WEB_CONFIG_FIL", ", did you mean --web.config.file? (see: shadow-pleg serve --help)"),
        ("RUNTIME_ENDPOINT", ", did you mean --runtime-endpoint? (see: "),
        ("LISEN", " (see: "),
        # What Kubernetes sets for Services.
        *((name, "") for name in ("SERVICE_HOST", "PORT", "X_SERVICE_PORT_METRICS")),
        *((f"PORT_13386_TCP{end}", "") for end in ("", "_ADDR", "_PORT", "_PROTO")),
    ],
)
def test_a_misspelt_variable_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    """As a flag is: that of the web configuration would leave the server open."""
    monkeypatch.setenv(f"SHADOW_PLEG_{name}", "x")
    outcome = run_here(capsys, "serve", "--print-config")
    if said:
        assert outcome.complaint(2).startswith(f"unknown variable SHADOW_PLEG_{name}{said}")
    else:
        assert outcome.code == 0


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run_here(capsys, "--version")
    python = platform.python_version()
    said = f"shadow-pleg {__version__} (commit unknown, Python {python}, {platform.platform()})\n"
    assert (outcome.code, outcome.out, outcome.err) == (0, said, "")


def test_signals_are_handled_before_anything_else_is_imported() -> None:
    """A SIGINT in the middle of an import would be a traceback."""
    code = (
        "import errno, os, signal, sys; before = {*sys.modules}; import exporter.__main__;"
        "print(*({*sys.modules} - before))"
    )
    out = subprocess.check_output((sys.executable, "-S", "-c", code), cwd=ROOT, text=True)
    assert set(out.split()) == {"exporter", "exporter.__main__"}
