"""The command line: one line and exit code 2 for bad usage; `--help` and `--version`."""

import ast
import platform
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import exporter
from exporter import __version__
from exporter.settings.config import Config
from exporter.settings.declaring import Flag, flags_of
from fleet.options import Request
from simulator.options import DEMO_DEFAULTS, Options
from tests.support.commands import ANYWHERE, run_here
from tests.support.runtimes import short_folder, without_privileges

pytestmark = [pytest.mark.quick, pytest.mark.usefixtures("borrowed_process", "wide_terminal")]

QUIETLY = {"serve": (ANYWHERE, "--log.level=error"), "check": ()}
# The arguments of `shadow-pleg`, and the one line on stderr.
BAD = (
    ((), "name a command first, like serve (see: shadow-pleg --help)"),
    (("--relist-period=5s", "serve"), "name a command first, like serve (see: shadow-pleg --help)"),
    (("serv",), "unknown command serv, did you mean serve? (see: shadow-pleg --help)"),
    (("watch",), "unknown command watch (see: shadow-pleg --help)"),
    (("serve", "--nope"), "unknown flag --nope (see: shadow-pleg serve --help)"),
    *(
        (
            ("serve", *wrong),
            f"unknown flag {wrong[0].partition('=')[0]}, did you mean --relist-period? (see: ",
        )
        for wrong in (("--relist-p=5s",), ("--relist-perod", "5s"), ("--relist_period=5s",))
    ),
    (
        ("serve", "--relist-period"),
        "--relist-period: expected one argument (see: shadow-pleg serve --help)",
    ),
    (
        ("serve", "--web.config.file=/nowhere/web.yml"),
        "--web.config.file: '/nowhere/web.yml': cannot be read: No such file or directory",
    ),
    (
        ("serve", ANYWHERE, "--web.probe-address=256.0.0.1:0"),
        "--web.probe-address: cannot listen on 256.0.0.1:0: ",
    ),
    (("health", ANYWHERE), "--web.listen-address: port 0 is any free one: name the port to ask"),
    (
        ("filter", "--socket-group=root"),
        "--socket-group: 'root' is not a whole number from 0 to 4294967294",
    ),
    (("report",), "--prometheus-url: say where Prometheus is, like http://prometheus.example:9090"),
    *(
        # Should it record all the same, it ends soon, and the test fails.
        (("record", "--duration=1s", *flags), said)
        for flags, said in (
            ((), "--output: name the file to write, like --output node.jsonl.gz"),
            (
                ("--output=/dev/null/x",),
                "--output: '/dev/null/x' cannot be written (Not a directory)",
            ),
            (
                ("--output=/dev/null",),
                "--output: '/dev/null' is not a regular file: name a new file",
            ),
            (("--output=/dev/null", "--force"), "--output: '/dev/null' is not a regular file"),
            (("--output=x", "--duration=0"), "--duration: '0' must be greater than zero"),
            (("--output=x", "--max-bytes=7"), "--max-bytes: '7' is not a size from 1MiB to"),
            (
                ("--output=x", "--redact", "--with-node-name"),
                "--with-node-name: --redact hides names",
            ),
        )
    ),
    (("replay", "/none.gz"), "FILE: '/none.gz' cannot be read: "),
    (("serve", "a\nb"), r"unexpected argument a\nb (see: "),
    (("demo", "--drop", "5"), "--drop: '5' is not a percentage from 0% to 100%: write 5%\n"),
    (("demo", "--drop=0.05"), "--drop: '0.05' is not a percentage from 0% to 100%: write it like"),
    (
        ("filter", "--socket=/run/x.sock", "--runtime-endpoint=unix:///run/../run/x.sock"),
        "--socket: unix:///run/x.sock is also --runtime-endpoint: name another socket to serve on",
    ),
    (("help", "serv"), "unknown command serv, did you mean serve? (see: shadow-pleg --help)"),
)


@pytest.fixture
def here() -> Iterator[Path]:
    """A folder for sockets."""
    with short_folder() as path:
        yield path


@pytest.mark.parametrize(("arguments", "said"), BAD, ids=lambda value: str(value)[:40])
def test_bad_usage_is_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    """The line says what is wrong and what to write instead."""
    outcome = run_here(capsys, *arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith(f"shadow-pleg: {said}")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize("kind", ["nothing", "nobody"])
def test_a_recording_without_a_runtime_is_refused(
    capsys: pytest.CaptureFixture[str], here: Path, kind: str
) -> None:
    """Rather than a file that says nothing; the name stays free."""
    path, file = here / "cri.sock", here / "node.jsonl.gz"
    if kind == "nobody":
        socket.create_server(str(path), family=socket.AF_UNIX).close()
    flags = (f"--runtime-endpoint={path}", f"--output={file}", "--duration=1s")
    outcome = run_here(capsys, "record", *flags, "--log.level=error")
    said = "Version: unavailable: " if kind == "nobody" else f"no runtime socket at unix://{path}: "
    assert outcome.err.startswith(f"shadow-pleg: {said}")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert not file.exists()


@pytest.mark.parametrize(("command", "code"), [("serve", 2), ("check", 1)])
def test_a_socket_in_a_folder_without_access_is_refused(
    capsys: pytest.CaptureFixture[str], here: Path, command: str, code: int
) -> None:
    """One line, no traceback."""
    path = here / "closed" / "cri.sock"
    path.parent.mkdir()
    with socket.create_server(str(path), family=socket.AF_UNIX):
        path.chmod(0o666)
        path.parent.chmod(0o000)
        with without_privileges():
            outcome = run_here(capsys, command, f"--runtime-endpoint={path}", *QUIETLY[command])
        path.parent.chmod(0o700)
    said = f"--runtime-endpoint: unix://{path} cannot be looked at: Permission denied"
    assert said in outcome.err + outcome.out
    assert outcome.code == code


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("192.0.2.1:80", "Cannot assign requested address"),
        ("[:::]:80", ""),
        ("a..b:80", "no such name"),
        (f"{'a' * 64}:80", "no such name"),
        (":80", "Permission denied"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(
    capsys: pytest.CaptureFixture[str], here: Path, address: str, said: str
) -> None:
    """It belongs to another machine, or its port needs privileges."""
    first = int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text(encoding="ascii"))
    if address == ":80" and first <= 80:
        pytest.skip("any user may listen on port 80 of this machine")
    flags = (f"--runtime-endpoint={here}/none.sock", "--log.level=error")
    with without_privileges():
        outcome = run_here(capsys, "serve", f"--web.listen-address={address}", *flags)
    begins = f"shadow-pleg: --web.listen-address: cannot listen on {address}: {said}"
    assert outcome.err.startswith(begins)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)


@pytest.mark.parametrize("kind", ["file", "folder", "nothing"])
def test_the_embedded_runtime_replaces_no_file(
    capsys: pytest.CaptureFixture[str], here: Path, kind: str
) -> None:
    """A mistake in `--socket` deletes nothing."""
    path = here / "taken" if kind != "nothing" else here / "no" / "cri.sock"
    if kind == "file":
        path.write_text("precious", encoding="ascii")
    elif kind == "folder":
        path.mkdir()
    outcome = run_here(capsys, "simulate", f"--socket={path}", "--pods=1")
    assert outcome.err.startswith(f"shadow-pleg: --socket: cannot serve on unix://{path}: ")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert path.exists() == (kind != "nothing")


def test_no_mistake_leaves_an_except_star_clause_by_itself() -> None:
    """Python before 3.11.4, as in Debian 12, wraps what is raised there: a traceback, exit 1."""
    raised = [
        f"{source.name}:{statement.lineno}"
        for source in Path(exporter.__file__).parent.rglob("*.py")
        for attempt in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(attempt, ast.TryStar)
        for handler in attempt.handlers
        for statement in ast.walk(handler)
        if isinstance(statement, ast.Raise) and statement.exc is not None
    ]
    assert raised == []


SETTINGS = flags_of(Config)
KUBELET = {each.flag for each in SETTINGS if each.name.startswith("kubelet_")}
RUNTIME = {"--runtime-endpoint"}
PAGES = {"--web.listen-address", "--web.probe-address", "--web.config.file"}
OPTIONS = {each.flag for each in flags_of(Options)}
REPORT = tuple(each for each in flags_of(Request) if each.metavar)
ALL = {each.flag for each in SETTINGS}
# When each command is needed and what it does, and the flags with a value that it has.
COMMANDS = {
    "serve": ("on every node, in the DaemonSet: watch it and export metrics", ALL),
    "check": (
        "before you install: can this node be watched, and if not, why",
        {"--relist-timeout", "--event-stream", "--output-format", *RUNTIME, *KUBELET}
        | {"--kernel-witness", "--cgroup-root"},
    ),
    "health": ("for a probe: is the serve on this machine alive", PAGES),
    "condition": ("for node-problem-detector: does a condition of this node hold", PAGES),
    "filter": (
        "to keep the runtime's socket from serve: pass on only its calls",
        {"--socket", "--socket-group", "--watchdog-timeout", *RUNTIME}
        | {"--log.level", "--log.format"},
    ),
    "record": (
        "to report a bug: watch this node and write all facts to a file",
        {each for each in ALL if not each.startswith("--web.")}
        | {"--output", "--duration", "--max-bytes"},
    ),
    "replay": (
        "to explain or dispute a verdict: judge a recording again",
        {"--explain", "--output-format"},
    ),
    "demo": (
        "to try it out: watch a simulated runtime that loses events",
        ALL - KUBELET - RUNTIME - {"--web.config.file", "--cgroup-root"} | OPTIONS,
    ),
    "simulate": (
        "to test other clients: run the simulated runtime on a socket",
        OPTIONS | {"--socket"},
    ),
    "report": (
        "before you turn Evented PLEG on: go or no-go, from Prometheus",
        {each.flag for each in REPORT},
    ),
}


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
    [("serve", SETTINGS), ("demo", flags_of(Options, DEMO_DEFAULTS)), ("report", REPORT)],
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
        ("record", "record --output FILE [flags]", ("required", "flags", "most used")),
        ("report", "report --prometheus-url URL [flags]", ("required", "Prometheus")),
        ("replay", "replay FILE [flags]", ("arguments", "flags")),
        ("serve", "serve [flags]", ("most used", "event stream", "relist", "kernel witness")),
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


def test_serve_shows_the_flags_that_matter_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Eight of them; the others have a meaningful default on any node."""
    _, text = help_of(capsys, "serve")
    first = text.partition("\nmost used:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^  --([\w.-]+)", first, re.MULTILINE) == [
        *("runtime-endpoint", "event-stream", "relist-period", "missed-grace"),
        *("web.listen-address", "web.config.file", "kubelet-metrics-url", "log.level"),
    ]


def test_print_config_says_where_each_value_comes_from(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line a flag, which `serve` takes again; a bad value is an error as ever."""
    monkeypatch.setenv("SHADOW_PLEG_RELIST_PERIOD", "20s")
    monkeypatch.setenv("SHADOW_PLEG_MISSED_GRACE", "7s")
    monkeypatch.delenv("NODE_NAME", raising=False)
    outcome = run_here(capsys, "serve", "--print-config", "--missed-grace=9s")
    assert (outcome.code, outcome.err) == (0, "")
    lines = dict(re.split(" +# ", line) for line in outcome.out.splitlines())
    assert len(lines) == len(SETTINGS)
    assert lines["--relist-period=20s"] == "SHADOW_PLEG_RELIST_PERIOD"
    assert lines["--missed-grace=9s"] == "--missed-grace"
    assert lines["--relist-timeout=30s"] == "default"
    assert lines[f"--node-name={socket.gethostname()}"] == "default"
    again = run_here(capsys, "serve", "--print-config", *lines)
    assert [line.split()[0] for line in again.out.splitlines()] == list(lines)
    assert run_here(capsys, "serve", "--print-config", "--missed-grace=x").code == 2


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
