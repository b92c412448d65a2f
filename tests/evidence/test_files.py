"""What others do to the evidence directory is noticed and counted, and nothing else is touched."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from structlog.typing import EventDict

from exporter.evidence.files import NAME
from exporter.evidence.store import Store
from exporter.node.state import Dropped, Node
from testbed.waiting import until
from tests.evidence.test_store import LOSSY, PLENTY, count, kept, lines, modes, put, wait_for
from tests.support.commands import fetch, running

NOBODY: Final = 65532
VICTIM: Final = b"root:x:0:0\nand a line without an end"

Change = Callable[[Path], object]
Trap = Callable[[Path, Path], object]


def replaced(folder: Path) -> None:
    """Put another file in the place of the newest one."""
    (folder / "other").write_bytes(b"")
    (folder / "other").rename(folder / NAME)


def renewed(folder: Path) -> None:
    """Put another folder in the place of this one."""
    folder.rename(folder.with_name("moved"))
    folder.mkdir(mode=0o700)


CHANGES: Final[dict[str, Change]] = {
    "folder removed": shutil.rmtree,
    "folder moved": lambda folder: folder.rename(folder.with_name("moved")),
    "folder replaced": renewed,
    "file removed": lambda folder: (folder / NAME).unlink(),
    "file moved": lambda folder: (folder / NAME).rename(folder / "rotated"),
    "file replaced": replaced,
    "file truncated": lambda folder: os.truncate(folder / NAME, 0),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_that_is_gone_is_noticed_at_the_next_record(
    tmp_path: Path, log: list[EventDict], change: Change
) -> None:
    """Its records are counted, it is logged once, and a new file takes what comes."""
    folder, node = tmp_path / "evidence", Node()
    store = Store(folder, PLENTY, node)
    for line in lines(1, 2):
        store.put(line)
    wait_for(lambda: count(folder) == 2)
    change(folder)
    put(store, 3, 4)
    assert [record["n"] for record in kept(folder)] == [3, 4]
    assert node.evidence_dropped == {Dropped.DISK: 2}
    (told,) = log
    assert (told["event"], told["records"]) == ("evidence was moved or removed", 2)
    assert modes(folder) == (0o700, 0o600)


def symbolic(folder: Path, victim: Path) -> None:
    """A link in the place of the file."""
    (folder / NAME).symlink_to(victim)


def hard(folder: Path, victim: Path) -> None:
    """The victim itself, by another name."""
    (folder / NAME).hardlink_to(victim)


def linked_folder(folder: Path, victim: Path) -> None:
    """A link in the place of the folder, to one that has the victim."""
    folder.rmdir()
    (victim.parent / NAME).hardlink_to(victim)
    folder.symlink_to(victim.parent)


def foreign(folder: Path, victim: Path) -> None:
    """A file of ours with something else in it."""
    shutil.copy(victim, folder / NAME)


def endless(folder: Path, _victim: Path) -> None:
    """A file of ours without any line."""
    (folder / NAME).write_bytes(b"x" * 200_000)


def fifo(folder: Path, _victim: Path) -> None:
    """Neither reader nor file."""
    os.mkfifo(folder / NAME)


def owned_by_another(folder: Path, _victim: Path) -> None:
    """It may be cut or read by that user at any time."""
    (folder / NAME).write_bytes(lines(0)[0] + b"\n")
    os.chown(folder / NAME, NOBODY, 0)


def folder_of_another(folder: Path, _victim: Path) -> None:
    """That user may put links into it."""
    os.chown(folder, NOBODY, 0)


def shared(folder: Path, _victim: Path) -> None:
    """Every user may put links into it."""
    folder.chmod(0o777)


TRAPS: Final[dict[Trap, str]] = {
    symbolic: "evidence.jsonl is a symbolic link",
    hard: "evidence.jsonl is a hard link",
    linked_folder: "it is a symbolic link",
    foreign: "evidence.jsonl does not hold evidence",
    endless: "evidence.jsonl does not hold evidence",
    fifo: "evidence.jsonl is not a regular file",
    owned_by_another: "evidence.jsonl belongs to uid 65532",
    folder_of_another: "it belongs to uid 65532",
    shared: "others can write to it",
}
AS_ROOT: Final = (owned_by_another, folder_of_another)


def contents(top: Path) -> dict[str, tuple[int, int, bytes]]:
    """All files below a folder: mode, links, bytes."""
    found = {}
    for path in top.rglob("*"):
        status = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(top))] = (status.st_mode, status.st_nlink, data)
    return found


@pytest.mark.parametrize("when", ["at the start", "while running"])
@pytest.mark.parametrize("trap", TRAPS)
def test_nothing_but_our_own_evidence_is_written_or_cut(
    tmp_path: Path, log: list[EventDict], trap: Trap, when: str
) -> None:
    """What lies in its place is left as it is; each record is counted, and it is logged once."""
    if trap in AS_ROOT and os.geteuid() != 0:
        pytest.skip("gives files to another user")
    folder, victim, node = tmp_path / "evidence", tmp_path / "etc" / "victim", Node()
    victim.parent.mkdir()
    victim.write_bytes(VICTIM)
    victim.chmod(0o644)
    running_before = when == "while running"
    if running_before:
        store = Store(folder, PLENTY, node)
        store.put(lines(1)[0])
        wait_for(lambda: count(folder) == 1)
        (folder / NAME).unlink()
    else:
        folder.mkdir(mode=0o700)
    trap(folder, victim)
    before = contents(tmp_path)
    if not running_before:
        store = Store(folder, PLENTY, node)
    put(store, 2, 3)
    assert contents(tmp_path) == before
    assert node.evidence_dropped[Dropped.DISK] == 2 + running_before
    (refused,) = (line["error"] for line in log if line["event"] == "evidence not kept")
    assert TRAPS[trap] in refused


def test_evidence_is_kept_again_when_what_was_in_its_place_is_gone(
    tmp_path: Path, log: list[EventDict]
) -> None:
    """Without a restart."""
    node = Node()
    (tmp_path / NAME).symlink_to(tmp_path / "victim")
    store = Store(tmp_path, PLENTY, node)
    store.put(lines(1)[0])
    wait_for(lambda: node.evidence_dropped[Dropped.DISK] == 1)
    (tmp_path / NAME).unlink()
    put(store, 2)
    assert [record["n"] for record in kept(tmp_path)] == [2]
    assert [line["event"] for line in log] == ["evidence not kept", "evidence is kept again"]


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    """Whatever mode an earlier file was left with."""
    (tmp_path / NAME).write_bytes(lines(1)[0] + b"\n")
    (tmp_path / NAME).chmod(0o666)
    put(Store(tmp_path, PLENTY, Node()), 2)
    assert [record["n"] for record in kept(tmp_path)] == [1, 2]
    assert modes(tmp_path)[1] == 0o600


def test_a_link_in_the_place_of_the_older_file_is_replaced_and_not_followed(
    tmp_path: Path,
) -> None:
    """The older half is renamed over whatever has its name."""
    victim, older = tmp_path / "victim", tmp_path / f"{NAME}.1"
    victim.write_bytes(VICTIM)
    older.symlink_to(victim)
    put(Store(tmp_path, 2000, Node()), 1, 2, 3, length=400)
    assert victim.read_bytes() == VICTIM
    assert not older.is_symlink()
    numbers = [record["n"] for name in (older.name, NAME) for record in kept(tmp_path, name)]
    assert numbers == [1, 2, 3]


async def test_evidence_that_was_moved_is_counted_by_a_running_exporter(tmp_path: Path) -> None:
    """With a real process, whose folder is moved while it runs."""
    folder = tmp_path / "evidence"
    async with running("demo", *LOSSY, f"--evidence-dir={folder}") as process:
        url = (await process.printed()).rsplit(" ", 1)[1].strip()
        await until(lambda: count(folder) > 2, "evidence on the disk", seconds=60)
        folder.rename(tmp_path / "moved")
        await until(lambda: count(folder) > 0, "evidence on the disk again", seconds=60)
        page = json.loads((await fetch(url + "debug/misses")).text)
        assert page["dropped"]["disk"] == count(tmp_path / "moved")
        await process.stop()
