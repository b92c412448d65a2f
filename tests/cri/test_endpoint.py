"""The runtime's socket: which one is chosen, why it cannot be used, and its connections."""

import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.cri.endpoint import Endpoint, permission_problem, require_usable
from exporter.errors import ConfigError, CriUnavailableError
from tests.support.runtimes import simulated, without_privileges


@contextmanager
def listening(path: Path, mode: int = 0o600) -> Iterator[Path]:
    """A socket that somebody listens on."""
    with socket.socket(socket.AF_UNIX) as owner:
        owner.bind(str(path))
        path.chmod(mode)
        yield path


def test_the_first_socket_that_exists_is_chosen(folder: Path) -> None:
    """In the order of the candidates; a link to nothing does not count."""
    paths = [folder / name for name in ("none.sock", "stale.sock", "second.sock", "third.sock")]
    paths[1].symlink_to(folder / "removed.sock")
    with listening(paths[3]), listening(paths[2]):
        assert Endpoint(None, paths).socket() == paths[2]


def test_a_socket_that_was_named_is_the_only_one_looked_at(folder: Path) -> None:
    """Watching another runtime than the one asked for would be worse than none."""
    with listening(folder / "other.sock") as other, pytest.raises(CriUnavailableError) as caught:
        Endpoint(folder / "named.sock", [other]).socket()
    assert caught.value.reason == "unavailable"
    assert str(caught.value) == (
        f"no runtime socket at unix://{folder}/named.sock: start the runtime, or name its socket"
        " with --runtime-endpoint"
    )


def test_where_none_exists_all_that_were_looked_for_are_named(folder: Path) -> None:
    """An operator sees at once what is missing from the mounts."""
    paths = [folder / "a.sock", folder / "b.sock"]
    with pytest.raises(CriUnavailableError, match=rf"unix://{paths[0]}, unix://{paths[1]}: "):
        Endpoint(None, paths).socket()


@pytest.mark.parametrize("folders", [".", "inside"])
@pytest.mark.parametrize("explicit", [True, False], ids=["named", "looked for"])
def test_a_socket_behind_a_closed_door_is_no_crash(
    folder: Path,
    explicit: bool,  # noqa: FBT001 -- both ways to find it
    folders: str,
) -> None:
    """An unreadable folder is a ConfigError or a CriUnavailableError."""
    (folder / "closed" / "inside").mkdir(parents=True)
    with listening(folder / "closed" / folders / "cri.sock") as path:
        (folder / "closed").chmod(0o000)
        try:
            with without_privileges(), pytest.raises((ConfigError, CriUnavailableError)):
                require_usable(Endpoint(path if explicit else None, [path]).socket())
        finally:
            (folder / "closed").chmod(0o700)


def test_a_socket_is_usable_directly_or_through_a_link_and_an_absent_one_may_come(
    folder: Path,
) -> None:
    """No error; /var/run is a link on most nodes."""
    require_usable(folder / "cri.sock")
    with listening(folder / "cri.sock") as path:
        (folder / "link.sock").symlink_to(path)
        for usable in (path, folder / "link.sock"):
            require_usable(usable)


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir], ids=["file", "folder"])
def test_what_is_no_socket_never_becomes_one(folder: Path, make: Callable[[Path], None]) -> None:
    """The message says what to name instead."""
    path = folder / "cri.sock"
    make(path)
    with pytest.raises(ConfigError) as caught:
        require_usable(path)
    assert str(caught.value) == (
        f"--runtime-endpoint: {path} is not a socket: name the CRI socket of the runtime,"
        " like unix:///run/containerd/containerd.sock"
    )


def test_a_path_that_leads_nowhere_is_said_so(folder: Path) -> None:
    """A link to itself, say."""
    path = folder / "cri.sock"
    path.symlink_to(path)
    said = f"unix://{path} cannot be looked at: Too many levels of symbolic links"
    with pytest.raises(ConfigError, match=f"^--runtime-endpoint: {said}$"):
        require_usable(path)


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o222])
def test_a_socket_must_be_ours_to_read_and_to_write(folder: Path, mode: int) -> None:
    """The kernel asks for write, runtimes are set up with both."""
    with (
        listening(folder / "cri.sock", mode) as path,
        without_privileges(),
        pytest.raises(ConfigError, match="permission denied on unix://"),
    ):
        require_usable(path)


def test_who_we_are_and_who_may_is_in_one_line(folder: Path) -> None:
    """Enough to write the securityContext."""
    with listening(folder / "cri.sock", 0o660) as path:
        status = path.stat()
        assert permission_problem(path) == (
            f"permission denied on unix://{path}: it is srw-rw---- {status.st_uid}:{status.st_gid},"
            f" this process is {os.geteuid()}:{os.getegid()};"
            f" run it with gid {status.st_gid} or as uid {status.st_uid}"
        )
        assert stat.S_IMODE(status.st_mode) == 0o660


async def test_calls_share_a_connection_and_a_subscription_has_its_own() -> None:
    """A stalled stream must not hold up the lists. After the end the next call opens a new one."""
    async with simulated() as server:
        endpoint = Endpoint(server.socket)
        first = endpoint.shared()
        assert endpoint.shared() is first
        separate = endpoint.separate()
        assert separate is not first
        await separate.close()
        assert (await first.version(10)).name == "containerd"
        await endpoint.close()
        assert endpoint.shared() is not first
        await endpoint.close()


async def test_an_endpoint_without_a_socket_is_unavailable_and_closes_all_the_same(
    folder: Path,
) -> None:
    """Until one comes."""
    endpoint = Endpoint(folder / "cri.sock")
    for connect in (endpoint.shared, endpoint.separate, endpoint.socket):
        with pytest.raises(CriUnavailableError):
            connect()
    await endpoint.close()
