"""`--help` and `--version`: every flag with its default, its variable and its meaning."""

import platform
import re

import pytest

from exporter import __version__
from exporter.settings.config import Config
from exporter.settings.declaring import Flag, flags_of
from fleet.options import Request
from simulator.options import DEMO_DEFAULTS, Options
from tests.support.commands import run_here

pytestmark = [pytest.mark.quick, pytest.mark.usefixtures("borrowed_process", "wide_terminal")]

SETTINGS = flags_of(Config)
KUBELET = {each.flag for each in SETTINGS if each.name.startswith("kubelet_")}
RUNTIME = {"--runtime-endpoint", "--host-root", "--pod-uid"}
PAGES = {"--web.listen-address", "--web.probe-address", "--web.config.file"}
OPTIONS = {each.flag for each in flags_of(Options)}
REPORT = tuple(each for each in flags_of(Request) if each.metavar)
ALL = {each.flag for each in SETTINGS}
# What each command does, and the flags with a value that it has.
COMMANDS = {
    "serve": ("watch this node and export metrics (what the DaemonSet runs)", ALL),
    "check": (
        "say whether this node can be watched, and what to do if not",
        {"--relist-timeout", "--event-stream", "--output-format", *RUNTIME, *KUBELET}
        | {"--kernel-witness", "--cgroup-root"},
    ),
    "health": ("ask a running serve on this machine whether it is alive", PAGES),
    "condition": (
        "ask a running serve on this machine whether a node condition holds",
        PAGES,
    ),
    "filter": (
        "offer the calls that serve needs on a socket, and deny all others",
        {"--socket", "--socket-group", "--watchdog-timeout", *RUNTIME}
        | {"--log.level", "--log.format"},
    ),
    "record": (
        "watch this node and write all facts into a file, for a bug report",
        {each for each in ALL if not each.startswith("--web.")}
        | {"--output", "--duration", "--max-bytes"},
    ),
    "replay": ("judge a recording again, and say why", {"--explain", "--output-format"}),
    "demo": (
        "serve against an embedded runtime that loses events",
        ALL - KUBELET - RUNTIME - {"--web.config.file", "--cgroup-root"} | OPTIONS,
    ),
    "simulate": (
        "run the embedded runtime alone, on a socket",
        OPTIONS | {"--socket"},
    ),
    "report": (
        "judge a fleet by what Prometheus has recorded: go or no-go",
        {each.flag for each in REPORT},
    ),
}
# The end of what a command's help says of a flag: it is the default that the command really has.
NOTES = (
    ("serve", "--web.config.file", "it changes (env: SHADOW_PLEG_WEB_CONFIG_FILE)"),
    ("check", "--relist-timeout", "(default: 30s; env: SHADOW_PLEG_RELIST_TIMEOUT)"),
    ("check", "--output-format", "format of the answer (default: text)"),
    ("health", "--web.listen-address", "(default: :13386; env: SHADOW_PLEG_WEB_LISTEN_ADDRESS)"),
    ("record", "--max-bytes", "file size at which to stop (default: 64MiB)"),
    ("record", "--duration", "time to record; if not given, until a signal"),
    ("replay", "--output-format", "format of the answer (default: text)"),
    ("simulate", "--socket", "(default: unix:///tmp/shadow-pleg.sock)"),
    ("simulate", "--drop", "share of announcements that are lost (default: 0%)"),
    ("simulate", "--delay", "delay of an announcement (default: 0)"),
    ("simulate", "--runtime", "the runtime to imitate (default: containerd/2.1.9)"),
    ("demo", "--node-name", "the host name (default: demo; env: NODE_NAME)"),
)


@pytest.fixture
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no line be broken, so that a meaning can be found whole."""
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
    """What it is for, its flags and no other, and the exit codes."""
    meaning, flags = COMMANDS[command]
    said, text = help_of(capsys, command)
    assert set(said) == flags
    assert f"\n{meaning[0].upper()}{meaning[1:]}.\n" in text
    assert re.search(rf"^ +{command}\s+{re.escape(meaning)}$", help_of(capsys)[1], re.MULTILINE)
    assert re.search(r"\nExit codes: 0 .*, 1 .*, 2 .*\.\n$", text)


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("serve", SETTINGS),
        ("demo", flags_of(Options, DEMO_DEFAULTS)),
        ("report", REPORT),
    ],
)
def test_a_flag_is_shown_with_its_meaning_and_its_default(
    capsys: pytest.CaptureFixture[str], command: str, flags: tuple[Flag, ...]
) -> None:
    """Each of them."""
    said, _ = help_of(capsys, command)
    for each in flags:
        assert said[each.flag].startswith(each.help)
        assert (f"default: {each.default}" if each.default else "") in said[each.flag]
        assert each.env in said[each.flag]


@pytest.mark.parametrize(("command", "flag", "ends"), NOTES)
def test_the_notes_on_a_flag_are_those_of_the_command(
    capsys: pytest.CaptureFixture[str], command: str, flag: str, ends: str
) -> None:
    """A default that can be given as it is shown, and the variable."""
    assert help_of(capsys, command)[0][flag].endswith(ends)


@pytest.mark.parametrize("command", [(), *((command,) for command in COMMANDS)])
def test_help_fits_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """Of 80 columns, but for words that are longer than the rest of a line."""
    monkeypatch.setenv("COLUMNS", "80")
    _, text = help_of(capsys, *command)
    long = [line for line in text.splitlines() if len(line) > 80]
    assert [line for line in long if not re.match(r" +--[\w-]+ \S+$", line)] == []


@pytest.mark.parametrize(
    ("command", "usage", "groups"),
    [
        ("record", "record --output FILE [flags]", ("required", "flags", "runtime")),
        ("report", "report --prometheus-url URL [flags]", ("required", "Prometheus")),
        ("replay", "replay FILE [flags]", ("arguments", "flags")),
        ("serve", "serve [flags]", ("runtime", "event stream", "relist", "kernel witness")),
    ],
)
def test_what_is_required_comes_first(
    capsys: pytest.CaptureFixture[str], command: str, usage: str, groups: tuple[str, ...]
) -> None:
    """In the usage, and as a group of its own; the others are in groups, too."""
    _, text = help_of(capsys, command)
    assert text.startswith(f"usage: shadow-pleg {usage}\n")
    titles = re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE)
    assert tuple(titles[: len(groups)]) == groups


def test_switches_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """They take no value."""
    _, text = help_of(capsys, "record")
    assert re.search(r"^  --redact +replace ids, ", text, re.MULTILINE)
    assert re.search(r"^  --with-node-name +write the node's name ", text, re.MULTILINE)


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    """One line for bug reports, with the commit where it was built from one."""
    outcome = run_here(capsys, "--version")
    python = platform.python_version()
    said = f"shadow-pleg {__version__} (commit unknown, Python {python}, {platform.platform()})\n"
    assert (outcome.code, outcome.out, outcome.err) == (0, said, "")
    assert run_here(capsys, "version") == outcome


def test_help_is_a_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    """As elsewhere."""
    assert run_here(capsys, "help") == run_here(capsys, "--help")
    assert run_here(capsys, "help", "check") == run_here(capsys, "check", "--help")
