"""`--help` and `--version`: every flag with its default, its variable and its meaning."""

from __future__ import annotations

import re

import pytest

from exporter import __version__
from exporter.report.options import Request
from exporter.settings.config import Config
from exporter.settings.declaring import flags_of
from exporter.simulator.options import DEMO_DEFAULTS, Options
from tests.support.commands import run_here

pytestmark = [pytest.mark.quick, pytest.mark.usefixtures("borrowed_process", "wide_terminal")]

KUBELET = tuple(s.name for s in flags_of(Config) if s.name.startswith("kubelet_"))
CHECKED = ("runtime_endpoint", "relist_timeout", "event_stream", *KUBELET)
# Each knob's default for `simulate`, which loses nothing, and for `demo`.
KNOBS = {
    "--pods": ("66", "66"),
    "--containers-per-pod": ("7", "7"),
    "--churn": ("2.0", "2.0"),
    "--drop": ("0.0", "0.05"),
    "--delay": ("0", "100ms"),
    "--duplicate": ("0.0", "0.01"),
    "--reorder": ("0.0", "0.01"),
    "--disconnect-every": ("0", "0"),
    "--restart-every": ("0", "0"),
    "--failed-starts": ("0.0", "0.02"),
    "--list-latency": ("0", "0"),
    "--stream-lists": ("0", "0"),
    "--events": ("on", "on"),
    "--runtime": ("containerd/2.1.9", "containerd/2.1.9"),
    "--seed": ("1", "1"),
}
NOT_IN_DEMO = ("runtime_endpoint", "web_config_file", *KUBELET)


@pytest.fixture
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no line be broken, so that a meaning can be found whole."""
    monkeypatch.setenv("COLUMNS", "1000")


def help_of(capsys: pytest.CaptureFixture[str], *command: str) -> dict[str, str]:
    """What `--help` says of each flag."""
    outcome = run_here(capsys, *command, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    # A flag begins a line, indented by two; a long one's meaning is on the next.
    lines = re.findall(r"^  (--[\w.-]+) \S+\s+(\S.*)$", outcome.out, re.MULTILINE)
    return dict(lines)


def notes(default: str, env: str) -> str:
    """How `--help` shows a default and a variable."""
    return f"(default: {default}; env: {env})" if default else f"(env: {env})"


def test_serve_explains_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    """Flag, meaning, default and variable of each setting, and nothing that is none."""
    assert help_of(capsys, "serve") == {
        s.flag: f"{s.help} " + notes(s.default, s.env) for s in flags_of(Config)
    }


def test_check_explains_what_it_uses(capsys: pytest.CaptureFixture[str]) -> None:
    """A preflight has no web page and no queue, hence no flags for them."""
    said = help_of(capsys, "check")
    shown = {s.flag for s in flags_of(Config) if s.name in CHECKED}
    assert set(said) == {*shown, "--output"}
    assert said["--relist-timeout"].endswith("(default: 30s; env: SHADOW_PLEG_RELIST_TIMEOUT)")
    assert said["--output"] == "form of the answer (default: text)"


def test_health_explains_where_it_asks(capsys: pytest.CaptureFixture[str]) -> None:
    """The same flags as `serve` has, and only those that say where it answers."""
    said = help_of(capsys, "health")
    assert set(said) == {"--web.listen-address", "--web.probe-address", "--web.config.file"}
    assert said["--web.listen-address"].endswith(
        "(default: :13386; env: SHADOW_PLEG_WEB_LISTEN_ADDRESS)"
    )


def test_record_explains_what_it_uses(capsys: pytest.CaptureFixture[str]) -> None:
    """A watch as `serve` has it, without pages; and where to write how much."""
    said = help_of(capsys, "record")
    unused = ("evidence_", "web_")
    shown = {s.flag for s in flags_of(Config) if not s.name.startswith(unused)}
    assert set(said) == {*shown, "--output", "--duration", "--max-bytes"}
    assert said["--max-bytes"].endswith("(default: 64MiB)")
    text = run_here(capsys, "record", "--help").out
    assert re.search(r"^  --redact +write pseudonyms ", text, re.MULTILINE)
    assert re.search(r"^  --with-node-name +write the node's name ", text, re.MULTILINE)


def test_replay_explains_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """A file, and how to look at it; nothing of a runtime."""
    said = help_of(capsys, "replay")
    assert set(said) == {"--explain", "--output-format"}
    assert said["--output-format"] == "form of the answer (default: text)"


def test_demo_shows_the_defaults_that_it_really_has(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the demo chooses for the person who tries it, the help says so, once."""
    said = help_of(capsys, "demo")
    for setting in flags_of(Config):
        flag, env = setting.flag, setting.env
        assert (flag in said) == (setting.name not in NOT_IN_DEMO)
        if flag in said:
            default = DEMO_DEFAULTS.get(setting.name, setting.default)
            assert said[flag].endswith(notes(default, env))
            assert said[flag].count("(default:") <= 1


@pytest.mark.parametrize("command", ["simulate", "demo"])
def test_every_knob_of_the_embedded_runtime_is_explained(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Meaning and default of each; durations are written as they can be given."""
    said = help_of(capsys, command)
    meanings = {"--" + option.name.replace("_", "-"): option.help for option in flags_of(Options)}
    assert set(KNOBS) == set(meanings)
    for flag, (alone, in_demo) in KNOBS.items():
        shown = alone if command == "simulate" else in_demo
        assert said[flag] == f"{meanings[flag]} (default: {shown})"


def test_simulate_says_where_it_listens(capsys: pytest.CaptureFixture[str]) -> None:
    """The default can be handed to another command as it stands."""
    said = help_of(capsys, "simulate")["--socket"]
    assert said.endswith("(default: unix:///tmp/shadow-pleg.sock)")


def test_report_explains_every_choice(capsys: pytest.CaptureFixture[str]) -> None:
    """Flag, meaning and default of each, and nothing that is none."""
    assert help_of(capsys, "report") == {
        c.flag: c.help + (f" (default: {c.default})" if c.default else "")
        for c in flags_of(Request)
    }


@pytest.mark.parametrize(
    "command",
    [
        (),
        *[(name,) for name in ("serve", "check", "health", "record", "replay")],
        *[(name,) for name in ("demo", "simulate", "report")],
    ],
)
def test_every_help_ends_with_the_exit_codes(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    """Who writes a unit file or a script needs them."""
    text = run_here(capsys, *command, "--help").out
    codes = "Exit codes: 0 done or stopped by a signal, 1 failed, 2 bad usage or configuration."
    assert text.rstrip().endswith(codes)


def test_the_commands_are_listed_with_what_they_do(capsys: pytest.CaptureFixture[str]) -> None:
    """The first help that a person sees."""
    text = run_here(capsys, "--help").out
    for line in (
        r"serve +watch this node and export metrics \(the DaemonSet\)",
        r"check +say whether this node can be watched, and what to do if not",
        r"record +watch this node and write all that is learnt into a file, for a report",
        r"replay +judge a recording again, and say why",
        r"demo +serve against an embedded runtime that loses events",
        r"simulate +run the embedded runtime alone, on a socket",
        r"report +judge a whole fleet by what Prometheus has recorded: go, no-go, or not known yet",
    ):
        assert re.search(rf"^ +{line}$", text, re.MULTILINE)


def test_names_keep_their_capitals(capsys: pytest.CaptureFixture[str]) -> None:
    """A DaemonSet is not a daemonset."""
    assert "(the DaemonSet)." in run_here(capsys, "serve", "--help").out


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    """One line for bug reports."""
    outcome = run_here(capsys, "--version")
    assert (outcome.code, outcome.out, outcome.err) == (0, f"shadow-pleg {__version__}\n", "")
