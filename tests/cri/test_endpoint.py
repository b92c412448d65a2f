"""The runtime's socket: which one is chosen, why it cannot be used, and its connections."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.cri.endpoint import Endpoint, require_usable
from exporter.errors import ConfigError, CriUnavailableError
from exporter.runtimes.containerd import CONTAINERD
from exporter.runtimes.crio import CRIO
from exporter.runtimes.known import PLACES
from exporter.runtimes.runtime import Place
from simulator.service import Method
from testbed.waiting import until
from tests.support.observer import DEADLINE
from tests.support.runtimes import simulated, without_privileges


@contextmanager
def listening(path: Path, mode: int = 0o600) -> Iterator[Path]:
    with socket.socket(socket.AF_UNIX) as owner:
        owner.bind(str(path))
        path.chmod(mode)
        yield path


def _place(root: Path, place: Place) -> Path:
    path = root / place.path.relative_to("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.used_by.replace(" ", "_"))
def test_the_only_socket_is_found_wherever_a_distribution_has_it(
    folder: Path, place: Place
) -> None:
    with listening(_place(folder / "host", place)) as path:
        assert Endpoint(None, (folder, folder / "host")).socket() == path


def test_a_link_to_a_socket_is_not_a_second_one(folder: Path) -> None:
    """As Bottlerocket keeps its old name; a link to nothing is none."""
    usual, crio, old = PLACES[0], CRIO.places[0], CONTAINERD.places[-1]
    _place(folder, crio).symlink_to("gone.sock")
    with listening(_place(folder, usual)) as path:
        _place(folder, old).symlink_to("containerd/containerd.sock")
        endpoint = Endpoint(None, (folder,))
        assert endpoint.socket() == path
        endpoint.require_usable()
        require_usable(folder / old.path.relative_to("/"))


def test_of_several_sockets_none_is_chosen(folder: Path) -> None:
    """All are named, and the flag that chooses; the wrong one would look like an idle node."""
    first, second = PLACES[0], CRIO.places[0]
    with (
        listening(_place(folder, first)) as one,
        listening(_place(folder, second)) as other,
        pytest.raises(ConfigError) as caught,
    ):
        Endpoint(None, (folder,)).require_usable()
    assert str(caught.value) == (
        f"several runtimes' sockets exist: unix://{one} ({first.used_by}), unix://{other}"
        f" ({second.used_by}): choose with --runtime-endpoint"
    )


def test_where_no_socket_is_all_places_are_named_until_one_comes(folder: Path) -> None:
    endpoint = Endpoint(None, (folder,))
    assert endpoint.seen is None
    endpoint.require_usable()
    with pytest.raises(CriUnavailableError) as caught:
        endpoint.socket()
    said = str(caught.value)
    assert all(f"unix://{_place(folder, place)}" in said for place in PLACES)
    assert said.endswith(": start the runtime, or name its socket with --runtime-endpoint")
    with listening(_place(folder, PLACES[0])) as path:
        assert endpoint.socket() == path
    path.unlink()
    with listening(_place(folder, PLACES[1])), pytest.raises(CriUnavailableError):
        endpoint.socket()


async def test_a_socket_that_was_named_is_the_only_one_looked_at(folder: Path) -> None:
    """Watching another runtime than the one asked for would be worse than none."""
    endpoint = Endpoint(folder / "named.sock", (folder,))
    with listening(_place(folder, PLACES[0])):
        for connect in (endpoint.for_lists, endpoint.separate, endpoint.socket):
            with pytest.raises(CriUnavailableError) as caught:
                connect()
            assert caught.value.reason == "unavailable"
            assert str(caught.value) == (
                f"no runtime socket at unix://{folder}/named.sock: start the runtime, or name its"
                " socket with --runtime-endpoint"
            )
    await endpoint.close()


@pytest.mark.parametrize("explicit", [True, False], ids=["named", "looked for"])
def test_a_socket_behind_a_closed_door_is_said_to_be_so(folder: Path, explicit: bool) -> None:
    closed = folder / "run" / "crio"
    closed.mkdir(parents=True)
    with listening(closed / "crio.sock") as path:
        closed.chmod(0o000)
        try:
            endpoint = Endpoint(path if explicit else None, (folder,))
            said = f"unix://{path} cannot be looked at: Permission denied"
            with without_privileges(), pytest.raises(ConfigError, match=said):
                require_usable(endpoint.socket())
        finally:
            closed.chmod(0o700)


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir], ids=["file", "folder"])
def test_what_is_no_socket_never_becomes_one(folder: Path, make: Callable[[Path], None]) -> None:
    path = folder / "cri.sock"
    make(path)
    with pytest.raises(ConfigError) as caught:
        require_usable(path)
    assert str(caught.value) == (
        f"--runtime-endpoint: {path} is not a socket: name the CRI socket of the runtime,"
        " like unix:///run/containerd/containerd.sock"
    )


@pytest.mark.parametrize(
    ("mode", "shown", "whose"),
    [
        *((0o000, "---------", "mode"), (0o444, "r--r--r--", "mode"), (0o222, "-w--w--w-", "mode")),
        (0o060, "---rw----", "group"),
    ],
)
def test_a_socket_must_be_ours_to_read_and_to_write(
    folder: Path, mode: int, shown: str, whose: str
) -> None:
    """The kernel asks for write, runtimes are set up with both; who may is said in one line.

    A group that the mode does not let in is not advised.
    """
    with listening(folder / "cri.sock", mode) as path:
        if not os.geteuid():
            os.chown(path, -1, 65_532)
        status = path.stat()
        with without_privileges() as uid, pytest.raises(ConfigError) as caught:
            require_usable(path)
    advice = {
        "mode": f"as uid {status.st_uid}, or give the socket the mode 0660",
        "group": f"with gid {status.st_gid} or as uid {status.st_uid}",
    }
    assert str(caught.value).startswith(
        f"--runtime-endpoint: permission denied on unix://{path}: it is s{shown}"
        f" {status.st_uid}:{status.st_gid}, this process is {uid}:{os.getegid()}: run it"
        f" {advice[whose]}; if it is already, SELinux"
    )


def test_a_socket_that_the_mode_allows_may_be_denied(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    # The kernel refuses to connect, as with SELinux, which is not here.
    monkeypatch.setattr(socket.socket, "connect", denied)
    with listening(folder / "cri.sock") as path, pytest.raises(ConfigError) as caught:
        require_usable(path)
    said = str(caught.value)
    assert f"permission denied on unix://{path}: it is srw------- " in said
    assert said.endswith("AppArmor denies it: the node's audit log says")


async def test_a_connection_is_replaced_unless_a_call_waits_on_it() -> None:
    """Closing it would cancel that call, and with it the task that waits."""
    async with simulated() as server:
        endpoint = Endpoint(server.socket)
        client = endpoint.for_lists()
        server.faults.hang(Method.VERSION)
        asking = asyncio.create_task(client.version(DEADLINE))
        await until(lambda: server.faults.waiting == 1, "the call is there")
        await endpoint.reconnect()
        assert endpoint.for_lists() is client
        server.faults.resume()
        assert (await asking).name == "containerd"
        await endpoint.reconnect()
        assert endpoint.for_lists() is not client
        await endpoint.close()


def test_without_its_filter_an_exporter_names_the_filter(folder: Path) -> None:
    with pytest.raises(CriUnavailableError) as caught:
        Endpoint(folder / "shadow-pleg" / "cri.sock").socket()
    assert "`filter` has not begun to serve there" in str(caught.value)
    assert "runtime-endpoint" not in str(caught.value)


def test_a_path_that_leads_nowhere_is_said_so(folder: Path) -> None:
    path = folder / "cri.sock"
    path.symlink_to(path)
    said = f"unix://{path} cannot be looked at: Too many levels of symbolic links"
    with pytest.raises(ConfigError, match=f"^--runtime-endpoint: {said}: give a path "):
        require_usable(path)
