"""The command line: bad usage is answered with one line and exit code 2."""

import ast
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import exporter
from tests.support.commands import ANYWHERE, run_here
from tests.support.runtimes import short_folder, without_privileges

pytestmark = [pytest.mark.quick, pytest.mark.usefixtures("borrowed_process")]

QUIETLY = {"serve": (ANYWHERE, "--log.level=error"), "check": ()}
# The arguments of `shadow-pleg`, and the one line on stderr.
BAD = (
    ((), "name a command first, like serve (see: shadow-pleg --help)"),
    (("--nope",), "name a command first, like serve (see: shadow-pleg --help)"),
    (("--relist-period=5s", "serve"), "name a command first, like serve (see: shadow-pleg --help)"),
    (("serv",), "unknown command serv, did you mean serve? (see: shadow-pleg --help)"),
    (("watch",), "unknown command watch (see: shadow-pleg --help)"),
    (("serve", "--nope"), "unknown flag --nope (see: shadow-pleg serve --help)"),
    (("serve", "now"), "unexpected argument now (see: shadow-pleg serve --help)"),
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
        "--web.probe-address: '256.0.0.1' is no address of this machine: ",
    ),
    (
        ("health", ANYWHERE),
        "--web.listen-address: port 0 is any free one: name the port to ask",
    ),
    (
        ("check", "--output-format=xml"),
        "--output-format: 'xml' is not one of text, json",
    ),
    (
        ("simulate", "--socket=here"),
        (
            "--socket: 'here' is not a unix socket:"
            " write it like unix:///run/containerd/containerd.sock"
        ),
    ),
    (
        ("filter", "--socket-group=root"),
        "--socket-group: 'root' is not a whole number from 0 to 4294967294",
    ),
    (
        ("report",),
        "--prometheus-url: say where Prometheus is, like http://prometheus.example:9090",
    ),
    (("report", "--fail-on=go"), "--fail-on: 'go' is not one of never, no-go, not-go"),
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
    (("replay", "/"), "FILE: '/' cannot be read: "),
    (("serve", "a\nb"), r"unexpected argument a\nb (see: "),
    (("demo", "--relist-period=0"), "--relist-period: '0' must be greater than zero, like 10s"),
    (("demo", "--drop", "5"), "--drop: '5' is not a percentage from 0% to 100%: write 5%\n"),
    (("demo", "--drop=0.05"), "--drop: '0.05' is not a percentage from 0% to 100%: write it like"),
    (("demo", "--drop=half"), "--drop: 'half' is not a percentage from 0% to 100%: write it like"),
    (("demo", "--delay=5"), "--delay: '5' is not a duration: write it like 10s, 1m30s"),
    (("check", "--output=json"), "unknown flag --output, did you mean --output-format? (see: "),
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


def test_zero_has_no_unit(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither as a share nor as a duration."""
    outcome = run_here(capsys, "demo", "--drop=0", "--delay=0", "--pods=x")
    assert outcome.err.startswith("shadow-pleg: --pods: 'x'")


def test_the_embedded_runtime_ignores_the_runtime_endpoint(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`demo` and `simulate` bring their own runtime."""
    monkeypatch.setenv("CONTAINER_RUNTIME_ENDPOINT", "tcp://nowhere")
    for arguments in (["demo", "--pods=0"], ["simulate", "--socket=/nowhere/s", "--pods=1"]):
        outcome = run_here(capsys, *arguments)
        assert "CONTAINER_RUNTIME_ENDPOINT" not in outcome.err


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
        ("192.0.2.1:80", "cannot listen on 192.0.2.1:80: Cannot assign requested address"),
        ("[:::]:80", "':::' is no address of this machine: "),
        ("a..b:80", "'a..b' is no address of this machine"),
        (f"{'a' * 64}:80", f"'{'a' * 64}' is no address of this machine"),
        (":80", "no permission to listen on :80: choose a port above 1023"),
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
    assert outcome.err.startswith(f"shadow-pleg: --web.listen-address: {said}")
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
