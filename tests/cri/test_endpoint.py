"""The runtime's socket: which one is chosen, why it cannot be used, and its connections."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.cri.endpoint import Endpoint, permission_problem, require_usable
from exporter.errors import ConfigError, CriUnavailableError
from exporter.settings.config import DEFAULT_SOCKETS
from tests.support.runtimes import short_folder, simulated, without_privileges


@pytest.fixture
def here() -> Iterator[Path]:
    """A folder for sockets."""
    with short_folder() as path:
        yield path


@contextmanager
def listening(path: Path, mode: int = 0o600) -> Iterator[Path]:
    """A socket that somebody listens on."""
    with socket.socket(socket.AF_UNIX) as owner:
        owner.bind(str(path))
        path.chmod(mode)
        yield path


def test_the_sockets_looked_for_are_those_of_the_kubelets_runtimes() -> None:
    """Containerd before CRI-O before cri-dockerd, as crictl looks."""
    assert [str(path) for path in DEFAULT_SOCKETS] == [
        "/run/containerd/containerd.sock",
        "/run/crio/crio.sock",
        "/var/run/cri-dockerd.sock",
    ]


def test_the_first_socket_that_exists_is_chosen(here: Path) -> None:
    """In the order of the candidates; a link to nothing does not count."""
    paths = [here / name for name in ("none.sock", "stale.sock", "second.sock", "third.sock")]
    paths[1].symlink_to(here / "removed.sock")
    with listening(paths[3]), listening(paths[2]):
        assert Endpoint(None, paths).socket() == paths[2]


def test_a_socket_that_was_named_is_the_only_one_looked_at(here: Path) -> None:
    """Watching another runtime than the one asked for would be worse than none."""
    with listening(here / "other.sock") as other, pytest.raises(CriUnavailableError) as caught:
        Endpoint(here / "named.sock", [other]).socket()
    assert caught.value.reason == "unavailable"
    assert str(caught.value) == (
        f"no runtime socket at unix://{here}/named.sock: start the runtime, or name its socket"
        " with --runtime-endpoint"
    )


def test_where_none_exists_all_that_were_looked_for_are_named(here: Path) -> None:
    """An operator sees at once what is missing from the mounts."""
    paths = [here / "a.sock", here / "b.sock"]
    with pytest.raises(CriUnavailableError, match=rf"unix://{paths[0]}, unix://{paths[1]}: "):
        Endpoint(None, paths).socket()


@pytest.mark.parametrize("folders", [".", "inside"])
@pytest.mark.parametrize("explicit", [True, False], ids=["named", "looked for"])
def test_a_socket_behind_a_closed_door_is_no_crash(
    here: Path,
    explicit: bool,  # noqa: FBT001 -- both ways to find it
    folders: str,
) -> None:
    """An unreadable folder is a ConfigError or a CriUnavailableError."""
    (here / "closed" / "inside").mkdir(parents=True)
    with listening(here / "closed" / folders / "cri.sock") as path:
        (here / "closed").chmod(0o000)
        try:
            with without_privileges(), pytest.raises((ConfigError, CriUnavailableError)):
                require_usable(Endpoint(path if explicit else None, [path]).socket())
        finally:
            (here / "closed").chmod(0o700)


def test_a_socket_is_usable_directly_or_through_a_link_and_an_absent_one_may_come(
    here: Path,
) -> None:
    """No error; /var/run is a link on most nodes."""
    require_usable(here / "cri.sock")
    with listening(here / "cri.sock") as path:
        (here / "link.sock").symlink_to(path)
        for usable in (path, here / "link.sock"):
            require_usable(usable)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_no_socket_never_becomes_one(here: Path, kind: str) -> None:
    """The message says what to name instead."""
    path = here / "cri.sock"
    path.touch() if kind == "file" else path.mkdir()
    with pytest.raises(ConfigError) as caught:
        require_usable(path)
    assert str(caught.value) == (
        f"--runtime-endpoint: {path} is not a socket: name the CRI socket of the runtime,"
        " like unix:///run/containerd/containerd.sock"
    )


def test_a_path_that_leads_nowhere_is_said_so(here: Path) -> None:
    """A link to itself, say."""
    (here / "cri.sock").symlink_to(here / "cri.sock")
    with pytest.raises(ConfigError) as caught:
        require_usable(here / "cri.sock")
    said = "cannot be looked at: Too many levels of symbolic links"
    assert str(caught.value) == f"--runtime-endpoint: unix://{here}/cri.sock {said}"


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o222])
def test_a_socket_must_be_ours_to_read_and_to_write(here: Path, mode: int) -> None:
    """The kernel asks for write, runtimes are set up with both."""
    with (
        listening(here / "cri.sock", mode) as path,
        without_privileges(),
        pytest.raises(ConfigError, match="permission denied on unix://"),
    ):
        require_usable(path)


def test_who_we_are_and_who_may_is_in_one_line(here: Path) -> None:
    """Enough to write the securityContext."""
    with listening(here / "cri.sock", 0o660) as path:
        status = path.stat()
        assert permission_problem(path) == (
            f"permission denied on unix://{path}: it is srw-rw---- {status.st_uid}:{status.st_gid},"
            f" this process is {os.geteuid()}:{os.getegid()};"
            f" run it with gid {status.st_gid} or as uid {status.st_uid}"
        )
        assert stat.S_IMODE(status.st_mode) == 0o660


async def test_an_endpoint_has_one_connection_for_all_who_ask() -> None:
    """Until it is closed; then the next call opens a new one."""
    async with simulated() as server:
        endpoint = Endpoint(server.socket)
        first = endpoint.shared()
        assert endpoint.shared() is first
        assert (await first.version(10)).name == "containerd"
        await endpoint.close()
        assert endpoint.shared() is not first
        await endpoint.close()


async def test_a_subscription_has_a_connection_of_its_own() -> None:
    """A stalled stream must not hold up the lists."""
    async with simulated() as server:
        endpoint = Endpoint(server.socket)
        separate = endpoint.separate()
        assert separate is not endpoint.shared()
        await separate.close()
        assert (await endpoint.shared().version(10)).name == "containerd"
        await endpoint.close()


async def test_an_endpoint_without_a_socket_is_unavailable_and_closes_all_the_same() -> None:
    """Until one comes."""
    with short_folder() as path:
        endpoint = Endpoint(path / "cri.sock")
        for connect in (endpoint.shared, endpoint.separate, endpoint.socket):
            with pytest.raises(CriUnavailableError):
                connect()
        await endpoint.close()
