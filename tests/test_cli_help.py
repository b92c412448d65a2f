"""`--help` and `--version`: every flag with its default, its variable and its meaning."""

import re

import pytest

from exporter import __version__
from exporter.report.options import Request
from exporter.settings.config import Config
from exporter.settings.declaring import Flag, flags_of
from exporter.simulator.options import DEMO_DEFAULTS, Options
from tests.support.commands import run_here

pytestmark = [pytest.mark.quick, pytest.mark.usefixtures("borrowed_process", "wide_terminal")]

SETTINGS = flags_of(Config)
KUBELET = {each.flag for each in SETTINGS if each.name.startswith("kubelet_")}
RUNTIME = {"--runtime-endpoint", "--host-root", "--pod-uid"}
PAGES = {"--web.listen-address", "--web.probe-address", "--web.config.file"}
OPTIONS = {each.flag for each in flags_of(Options)}
ALL = {each.flag for each in SETTINGS}
# What each command does, and the flags with a value that it has.
COMMANDS = {
    "serve": ("watch this node and export metrics (the DaemonSet)", ALL),
    "check": (
        "say whether this node can be watched, and what to do if not",
        {"--relist-timeout", "--event-stream", "--output", *RUNTIME, *KUBELET}
        | {"--kernel-witness", "--cgroup-root"},
    ),
    "health": ("ask a running serve on this machine whether it lives", PAGES),
    "condition": (
        "say whether a condition of this node holds: exit code 0 no, 1 yes, 2 not known",
        PAGES,
    ),
    "filter": (
        "pass on the calls that serve needs from a socket of its own, and deny all others",
        {"--socket", "--socket-group", "--watchdog-timeout", *RUNTIME}
        | {"--log.level", "--log.format"},
    ),
    "record": (
        "watch this node and write all that is learnt into a file, for a report",
        {each for each in ALL if not each.startswith(("--evidence", "--web."))}
        | {"--output", "--duration", "--max-bytes"},
    ),
    "replay": ("judge a recording again, and say why", {"--explain", "--output-format"}),
    "demo": (
        "serve against an embedded runtime that loses events",
        ALL - KUBELET - RUNTIME - {"--web.config.file", "--cgroup-root"} | OPTIONS,
    ),
    "simulate": (
        "run the embedded runtime alone, on a socket",
        OPTIONS | {"--socket", "--cgroup-root"},
    ),
    "report": (
        "judge a whole fleet by what Prometheus has recorded: go, no-go, or not known yet",
        {each.flag for each in flags_of(Request)},
    ),
}
# The end of what a command's help says of a flag: it is the default that the command really has.
NOTES = (
    ("serve", "--web.config.file", "it changes (env: SHADOW_PLEG_WEB_CONFIG_FILE)"),
    ("check", "--relist-timeout", "(default: 30s; env: SHADOW_PLEG_RELIST_TIMEOUT)"),
    ("check", "--output", "form of the answer (default: text)"),
    ("health", "--web.listen-address", "(default: :13386; env: SHADOW_PLEG_WEB_LISTEN_ADDRESS)"),
    ("record", "--max-bytes", "size of the file at which the recording ends (default: 64MiB)"),
    ("record", "--duration", "time to record; if not given, until a signal comes"),
    ("replay", "--output-format", "form of the answer (default: text)"),
    ("simulate", "--socket", "(default: unix:///tmp/shadow-pleg.sock)"),
    ("simulate", "--drop", "ratio of announcements that are lost (default: 0.0)"),
    ("simulate", "--delay", "in seconds; order is kept (default: 0)"),
    ("simulate", "--runtime", "the runtime to imitate (default: containerd/2.1.9)"),
    ("demo", "--node-name", "the host's name (default: demo; env: NODE_NAME)"),
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
    codes = "Exit codes: 0 done or stopped by a signal, 1 failed, 2 bad usage or configuration."
    assert text.rstrip().endswith(codes)


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("serve", SETTINGS),
        ("demo", flags_of(Options, DEMO_DEFAULTS)),
        ("report", flags_of(Request)),
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


def test_switches_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """They take no value."""
    _, text = help_of(capsys, "record")
    assert re.search(r"^  --redact +write pseudonyms ", text, re.MULTILINE)
    assert re.search(r"^  --with-node-name +write the node's name ", text, re.MULTILINE)


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    """One line for bug reports."""
    outcome = run_here(capsys, "--version")
    assert (outcome.code, outcome.out, outcome.err) == (0, f"shadow-pleg {__version__}\n", "")
