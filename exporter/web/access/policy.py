"""The access policy from the web configuration file, reloaded when it changes.

A broken file leaves the last good policy in force. So does one that lets in clients who were kept
out: an emptied or half-written file looks the same. Blind spot: half of a file that is valid and
protects as much, but has fewer users; so files must be replaced by a rename.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from exporter.errors import ConfigError

if TYPE_CHECKING:
    from exporter.node.state import Node
    from exporter.web.access.web_config import Tls

_log = structlog.get_logger()

_LOOK_SECONDS: Final = 1.0

_Stamp = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Policy:
    """What one reading of the files says."""

    tls: Tls | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    # Name to bcrypt hash.
    users: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def closed_by(self) -> frozenset[str]:
        """The keys of the file that keep clients out."""
        tls = self.tls
        ways = {
            "basic_auth_users": bool(self.users),
            "tls_server_config": tls is not None,
            "client_auth_type": tls is not None and tls.requires_client,
            "client_allowed_sans": tls is not None and bool(tls.allowed),
        }
        return frozenset(key for key, closes in ways.items() if closes)


class WebPolicy:
    """The policy in force; without a file it admits everyone and never changes.

    ConfigError if the files are wrong at the start. `names`: hosts, besides addresses, by which
    pages that name pods may be requested.
    """

    def __init__(self, path: str, node: Node, names: tuple[str, ...] = ()) -> None:
        self._path = Path(path)
        self._node = node
        self.names = tuple(name.lower() for name in names)
        self._stamps: dict[Path, _Stamp] = {}
        self.on_change: Callable[[], None] = lambda: None
        self.policy = self.load() if path else Policy()

    async def keep_up(self) -> None:
        """Reload the files when they have changed, until cancelled; a thread accesses them."""
        while self._stamps:
            await asyncio.sleep(_LOOK_SECONDS)
            if await asyncio.to_thread(self._is_changed):
                await self._reload()

    async def _reload(self) -> None:
        try:
            policy = await asyncio.to_thread(self.load)
            self._refuse_weaker(policy)
        except ConfigError as error:
            self._node.web_reloaded = False
            _log.error("web configuration not reloaded: the last good one stays", error=str(error))
            return
        self.policy = policy
        self._node.web_reloaded = True
        self.on_change()
        tls = policy.tls
        _log.info(
            "web configuration reloaded",
            tls=tls is not None,
            client_certificates=tls is not None and tls.requires_client,
            users=len(policy.users),
        )

    def _refuse_weaker(self, policy: Policy) -> None:
        if gone := self.policy.closed_by - policy.closed_by:
            why = f"{', '.join(sorted(gone))}: gone: restart to serve with less protection"
            raise ConfigError(f"--web.config.file: {str(self._path)!r}: {why}")

    def load(self) -> Policy:
        """Read the files; ConfigError."""
        path = self._path
        # Take the stamp before reading: a change in the meantime causes another reload.
        self._stamps = {path: _stamp(path)}
        # YAML takes a MiB of memory, so load it only if access control is used.
        from exporter.web.access.web_config import read_web_config, tls_of  # noqa: PLC0415 - see above

        config = read_web_config(path)
        tls = None
        if config.tls_server_config:
            named = config.tls_server_config.files(path.parent)
            self._stamps |= {each: _stamp(each) for each in named.values()}
            tls = tls_of(path, config.tls_server_config, named)
        return Policy(tls, config.headers, config.basic_auth_users or {})

    def _is_changed(self) -> bool:
        return any(_stamp(path) != stamp for path, stamp in self._stamps.items())


def _stamp(path: Path) -> _Stamp:
    """Changes with the content; None if there is no file."""
    try:
        seen = os.stat(path)  # noqa: PTH116 - in a thread, and a str or a Path alike
    except (OSError, ValueError):
        return None
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
