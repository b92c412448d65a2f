"""`check`, and `serve` where it cannot work: what they say, and the exit code."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.commands import run_here
from tests.support.real.containerd import Containerd

# Root without its privileges: the socket's mode counts, but Python can read its modules.
UNPRIVILEGED = ("setpriv", "--regid=65532", "--clear-groups", "--bounding-set=-all")
STRANGER = 65533

# Exit code, kind of stream and level of each line.
ANSWERS = {
    "2.1": (0, "broadcast", ["ok", "ok", "ok", "ok", "ok"]),
    "1.7": (1, "exclusive", ["ok", "ok", "ok", "fail"]),
    "1.6": (1, "none", ["ok", "ok", "ok", "fail"]),
}
SUBJECTS = ["socket", "runtime", "relist", "stream", "events"]


def endpoint(containerd: Containerd) -> str:
    """The flag that names its socket."""
    return f"--runtime-endpoint=unix://{containerd.socket}"


@pytest.mark.usefixtures("borrowed_process")
def test_what_check_says(containerd: Containerd, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each question, a remedy below what fails, the answer last; 0 means yes."""
    code, kind, levels = ANSWERS[containerd.version]
    text = run_here(capsys, "check", endpoint(containerd))
    program = run_here(capsys, "check", endpoint(containerd), "--output=json")
    assert (text.code, text.err) == (code, "")
    *lines, last = text.out.splitlines()
    said = [line.split()[:2] for line in lines if "->" not in line]
    assert said == [list(pair) for pair in zip(levels, SUBJECTS, strict=False)]
    assert any(f" {kind}: " in line for line in lines)
    assert len(lines) - len(said) == code, "one remedy if it fails"
    assert last == f"this node {'cannot' if code else 'can'} be watched"
    # The same answer for programs.
    answer = json.loads(program.out)
    assert (program.code, answer["watchable"]) == (code, code == 0)
    assert [[line["level"], line["subject"]] for line in answer["checks"]] == said
    assert [bool(line["remedy"]) for line in answer["checks"]] == [x == "fail" for x in levels]


def test_serve_without_permission(containerd_21: Containerd) -> None:
    """Waiting would not help: one line with the socket's mode, its owner and who runs; exit 2."""
    os.chown(containerd_21.socket, STRANGER, STRANGER)
    serve = (sys.executable, "-m", "exporter", "serve", "--web.listen-address=127.0.0.1:0")
    ran = subprocess.run(
        [*UNPRIVILEGED, *serve, endpoint(containerd_21)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (line,) = ran.stderr.splitlines()
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"it is srw-rw---- {STRANGER}:{STRANGER}, this process is 0:65532" in line
