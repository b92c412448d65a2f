"""`replay` as an operator uses it, including mistakes."""

import gzip
import itertools
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.model.events import Pod
from exporter.recording.recorder import member
from tests import ROOT, assert_golden
from tests.support.commands import Outcome, run_here
from tests.support.facts import RUNNING, relist, up
from tests.support.stories import told
from tests.support.tape import in_blocks, recording_of, secret_story

pytestmark = [pytest.mark.quick, pytest.mark.usefixtures("borrowed_process")]

STORY = told(
    "profile 0 2.1.9; up 0.5; list 1; created c1 1.5; started c1 1.75; list 2 12 c1=RUNNING;"
    " list 22 c1=EXITED c10=RUNNING; started c1 31; list 32 c1=EXITED c10=RUNNING; down 33;"
    " list 42 c1=EXITED c10=RUNNING"
)
# What is explained of `c1`.
SAID = ROOT / "tests" / "golden" / "explained.txt"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return recording_of(tmp_path / "node.jsonl.gz", *STORY)[1].path


def replay(capsys: pytest.CaptureFixture[str], *arguments: object) -> Outcome:
    return run_here(capsys, "replay", *map(str, arguments))


def test_how_late_exits_were_noticed_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    story = told(
        "up; list 1 c1=RUNNING; list 5 c1=EXITED; finished c1 16.5 4.25; list 30 c1=EXITED"
    )
    path = recording_of(tmp_path / "node.jsonl.gz", *story)[1].path
    outcome = replay(capsys, path)
    assert (outcome.code, outcome.err) == (0, "")
    assert "exits      announced 12.2 s (p50), 12.2 s (p99) after the end, of 1" in outcome.out
    assert "exits      listed 750 ms (p50), 750 ms (p99) after the end, of 1" in outcome.out
    document = json.loads(replay(capsys, path, "--output-format=json").out)
    assert document["exit_to_list"] == {"exits": 1, "p50_seconds": 0.75, "p99_seconds": 0.75}
    said = replay(capsys, path, "--explain", "c1").out
    assert "the process ended 750 ms before a list showed it\n" in said
    assert "0.0 ms after the runtime made it, 12.2 s after its finished_at\n" in said
    assert "ContainerDied SLOW\n" in said


def test_explain_tells_the_story_of_one_container(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    outcome = replay(capsys, file, "--explain", "c1")
    assert (outcome.code, outcome.err) == (0, "")
    assert_golden(outcome.out, SAID)
    document = json.loads(replay(capsys, file, "--explain=c1", "--output-format=json").out)
    assert document["container"]["id"] == "c1"
    assert document["timeline"][-1]["text"] == "ContainerDied MISSED (silent)"
    assert document["same_verdicts"] == document["live_verdicts"] == 8


def test_the_kubelets_delay_is_explained_from_the_exit_and_from_the_announcement(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "r.gz"
    story = told(
        "up 0.5; list 1 c1=RUNNING; shows 1.5 u1 c1=RUNNING; known 1.5; finished c1 3.06 3;"
        " shows 3.61 u1 c1=EXITED code=3; list 4 c1=EXITED"
    )
    recording_of(path, *story)
    lines = [each[27:] for each in replay(capsys, path, "--explain", "c1").out.splitlines()]
    assert "kubelet  shows it running" in lines
    assert "kubelet  shows it ended with exit code 3 (Error)" in lines
    assert "ledger   the kubelet showed it 610 ms after the exit" in lines
    assert "ledger   the kubelet showed it 550 ms after the announcement" in lines
    assert "exits      shown by the kubelet 610 ms (p50)" in replay(capsys, path).out


def test_replay_sums_up_the_whole_recording(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    lines = replay(capsys, file).out.splitlines()
    assert lines[:2] == SAID.read_text(encoding="utf-8").splitlines()[:2]
    assert lines[2] == "time       2023-11-14T21:56:40.000000Z, 42 s"
    assert "                  2 missed (silent)" in lines
    losses = [line for line in lines if "MISSED" in line]
    assert losses == [
        "21:57:12.000  MISSED silent ContainerDied of container c1",
        "21:57:12.000  MISSED silent ContainerStarted of container c10",
    ]
    assert lines[-1] == "to see why: shadow-pleg replay FILE --explain ID"
    document = json.loads(replay(capsys, file, "--output-format=json").out)
    assert document["runtimes"] == ["containerd 2.1.9"]
    assert [loss["id"] for loss in document["losses"]] == ["c1", "c10"]
    assert (document["damage"], document["ended"]) == (None, "stopped")


def test_a_container_is_found_by_the_beginning_of_its_id_or_by_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = recording_of(tmp_path / "r.gz", *secret_story())[1].path
    for wanted in ("9f8e", "exporter-of-secrets"):
        out = replay(capsys, file, "--explain", wanted).out
        assert "container  9f8e7d6c5b4a payroll/salaries-7d9f8/exporter-of-secrets" in out
        assert "sandbox    0a1b2c3d4e5f" in out


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("c", "--explain: 'c' means 2 containers (c1, c10): give more of one's id"),
        (
            "zzz",
            (
                "--explain: no container of the recording has the name 'zzz', or an id that begins"
                " with it"
            ),
        ),
    ],
)
def test_an_unknown_or_ambiguous_container_is_refused(
    capsys: pytest.CaptureFixture[str], file: Path, wanted: str, says: str
) -> None:
    outcome = replay(capsys, file, "--explain", wanted)
    assert (outcome.code, outcome.err) == (2, f"shadow-pleg: {says}\n")


def test_a_damaged_recording_is_replayed_as_far_as_it_goes(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    data = b"".join(in_blocks(file.read_bytes()))
    file.write_bytes(data[: len(data) // 2])
    outcome = replay(capsys, file)
    (damage,) = (line for line in outcome.out.splitlines() if line.startswith("damage"))
    assert (outcome.code, outcome.err) == (1, "")
    assert re.fullmatch(
        r"damage     after line \d+: the file ends in the middle of a block;"
        r" what came before was replayed",
        damage,
    )
    assert "the same as live" in outcome.out


def test_a_pipe_is_refused_rather_than_waited_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its writer may never come."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    outcome = replay(capsys, pipe)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"shadow-pleg: FILE: '{pipe}' is not a file: save the recording first\n"


# Members of some KiB each, which all would take more than is allowed.
BOMBS = {
    "lines": (b"ab\n" * (4 << 20), 1, "it unpacks to more than 4194304 bytes"),
    "lists": (b"[" + b"[]," * (1 << 20) + b"0]", 1, "it is no JSON object"),
    "gone": (b'{"f":"changes","gone":[%s""]}' % (b'"",' * (1 << 20)), 30, "more than 180 MiB"),
    "names": (b'{"f":"profile","at":1,"name":"%s","version":""}' % (b"n" * 4 * 10**6), 60, "MiB"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_recording_takes_no_more_memory_than_a_node(tmp_path: Path, bomb: str) -> None:
    """However little of it is text, and wherever it is kept."""
    text, times, said = BOMBS[bomb]
    path = tmp_path / "bomb.gz"
    head = next(iter(gzip.decompress(recording_of(path)[0]).splitlines(keepends=True)))
    number = itertools.count()
    blocks = (member(text.replace(b"nnn", b"%03d" % next(number), 1)) for _ in range(times))
    path.write_bytes(member(head) + b"".join(blocks))
    # Another process: this one has taken more already.
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.measured", "replay", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said in done.stdout + done.stderr
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert float(done.stderr.split()[-1]) < 256


def test_the_gate_decides_the_exit_code(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    """Two silent losses, and no ghost."""
    lost = replay(capsys, file, "--fail-on=ghosts,silent")
    assert (lost.code, "gate       FAILED: 2 silent" in lost.out) == (1, True)
    passed = replay(capsys, file, "--fail-on=ghosts")
    assert (passed.code, "gate       passed: no ghosts" in passed.out) == (0, True)


def test_other_verdicts_than_live_fail(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    text = gzip.decompress(file.read_bytes())
    file.write_bytes(member(text.replace(b'"silent"', b'"stream_down"', 1)))
    outcome = replay(capsys, file)
    assert outcome.code == 1
    assert "verdicts   NOT the same as live: live it was c1" in outcome.out


def test_control_characters_of_a_runtime_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    evil = "\x1b[2J\u202ename\ud800"
    (item,) = relist(2, **{evil: RUNNING}).items
    item = item._replace(name=evil, pod=Pod(evil, evil, evil))
    lists = [replace(relist(at), items=(item,)) for at in (2, 20)]
    file = recording_of(tmp_path / "r.gz", up(), relist(1), *lists)[1].path
    for flags in ((), ("--explain", evil), ("--output-format=json",)):
        outcome = replay(capsys, file, *flags)
        assert outcome.code == 0
        assert "\\x1b[2J" in outcome.out or "\\u001b[2J" in outcome.out
        assert all(char.isprintable() or char == "\n" for char in outcome.out)
