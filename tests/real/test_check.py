"""`check`, and `serve` where it cannot work: what they say, and the exit code."""

import json

import pytest

from testbed.containerd import Containerd
from tests.support.commands import run_here

# Root without its privileges: the socket's mode counts, but Python can read its modules.

# Exit code, kind of stream and level of each line.
ANSWERS = {
    "2.1": (0, "broadcast", ["ok", "ok", "ok", "ok", "ok", "ok"]),
    "1.7": (1, "exclusive", ["ok", "ok", "ok", "ok", "fail"]),
    "1.6": (1, "none", ["ok", "ok", "ok", "ok", "fail"]),
}
SUBJECTS = ["socket", "runtime", "relist", "kernel", "stream", "events"]


def endpoint(containerd: Containerd) -> str:
    """The flag that names its socket."""
    return f"--runtime-endpoint=unix://{containerd.socket}"


@pytest.mark.usefixtures("borrowed_process")
def test_what_check_says(containerd: Containerd, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each question, a remedy below what fails, the answer last; 0 means yes."""
    code, kind, levels = ANSWERS[containerd.version]
    text = run_here(capsys, "check", endpoint(containerd))
    program = run_here(capsys, "check", endpoint(containerd), "--output-format=json")
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
