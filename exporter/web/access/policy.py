"""The access policy from the web configuration file, reloaded when it changes.

The policy in force is replaced as a whole when a file changes.

A file takes effect once a second look finds it unchanged, also at the start, so that a half-written
file has no effect. If a file is broken, the last good policy stays in force. It also stays if the
file would let in clients that are kept out: an emptied or half-written file looks the same.
"""

from __future__ import annotations

import asyncio
import itertools
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
# Looks after which files that could not be loaded are tried again: descriptors may be free by then.
_RETRY_LOOKS: Final = 60

_Stamp = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy, all from one reading. `users`: name to bcrypt hash."""

    tls: Tls | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def closed_by(self) -> frozenset[str]:
        """The keys of the file that keep clients out."""
        tls, ways = self.tls, {"basic_auth_users": bool(self.users)}
        if tls:
            ways |= {
                "tls_server_config": True,
                "client_auth_type": tls.requires_client,
                "client_allowed_sans": bool(tls.allowed),
            }
        return frozenset(key for key, closes in ways.items() if closes)


class WebPolicy:
    """The policy in force. Without a file it admits everyone and never changes.

    `names`: host names, beside IP addresses, by which clients may ask for pages that name pods.
    """

    # With a file it is not set before `settle`.
    policy: Policy

    def __init__(self, path: str, node: Node, names: tuple[str, ...] = ()) -> None:
        self._path = Path(path) if path else None
        self._node = node
        self.names = tuple(name.lower() for name in names)
        self._stamps: dict[Path, _Stamp] = {}
        # Why the last reload failed.
        self._failure = ""
        self.on_change: Callable[[], None] = lambda: None
        if not path:
            self.policy = Policy()

    async def settle(self) -> None:
        """Put the files' policy in force once they stay the same; ConfigError if they are wrong."""
        self.policy = await self._settled()

    async def _settled(self) -> Policy:
        found: Policy | ConfigError = Policy()
        while self._path:
            try:
                found = await asyncio.to_thread(self.load)
            except ConfigError as error:
                found = error
            await asyncio.sleep(_LOOK_SECONDS)
            if await asyncio.to_thread(self._look) == self._stamps:
                break
        if isinstance(found, ConfigError):
            raise found
        return found

    async def keep_up(self) -> None:
        """Reload the files when they have changed, until cancelled; a thread accesses them."""
        for number in itertools.count() if self._path else ():
            await asyncio.sleep(_LOOK_SECONDS)
            is_due = self._failure and number % _RETRY_LOOKS == 0
            if is_due or await asyncio.to_thread(self._look) != self._stamps:
                await self._reload()

    async def _reload(self) -> None:
        try:
            policy = self._not_weaker(await self._settled())
        except ConfigError as error:
            self._node.web_reloaded = False
            if str(error) != self._failure:
                self._failure = str(error)
                kept = "web configuration not reloaded: the last good one stays"
                _log.error(kept, error=self._failure)
            return
        self.policy, self._failure = policy, ""
        self._node.web_reloaded = True
        self.on_change()
        tls = policy.tls
        _log.info(
            "web configuration reloaded",
            tls=tls is not None,
            client_certificates=tls is not None and tls.requires_client,
            users=len(policy.users),
        )

    def _not_weaker(self, policy: Policy) -> Policy:
        """The policy; ConfigError if it would let in clients that are kept out now."""
        if gone := self.policy.closed_by - policy.closed_by:
            why = f"{', '.join(sorted(gone))}: gone: restart to serve with less protection"
            raise ConfigError(f"--web.config.file: {str(self._path)!r}: {why}")
        return policy

    def load(self) -> Policy:
        """The policy that the files describe now; ConfigError if they are wrong."""
        path = self._path or Path()
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

    def _look(self) -> dict[Path, _Stamp]:
        return {path: _stamp(path) for path in self._stamps}


def _stamp(path: Path) -> _Stamp:
    """A value that differs if the file's content does; None if there is no file."""
    try:
        seen = os.stat(path)  # noqa: PTH116 - in a thread, and a str or a Path alike
    except (OSError, ValueError):
        return None
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
