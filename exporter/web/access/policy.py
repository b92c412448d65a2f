"""The access policy from the web configuration file, reloaded when it changes.

The policy in force is replaced as a whole when a file changes.

A file takes effect once it has stayed the same for one more look. A broken one leaves the last good
one in force. So does one that protects less, because a half-written file looks the same.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from exporter.errors import ConfigError
from exporter.web.refusals import WebState

if TYPE_CHECKING:
    from exporter.web.access.tls import Tls

_log = structlog.get_logger()

_Stamp = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy in force, all from one reading. `users`: name to bcrypt hash."""

    tls: Tls | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def requires_client(self) -> bool:
        """Whether every client needs a certificate."""
        return self.tls is not None and self.tls.requires_client


class WebPolicy:
    """The policy in force. Without a file it admits everyone and never changes."""

    def __init__(self, path: str, state: WebState, check_seconds: float = 1.0) -> None:
        self._path = Path(path) if path else None
        self._state = state
        self._check_seconds = check_seconds
        self._stamps: dict[Path, _Stamp] = {}
        self.policy = self._load() if self._path else Policy()
        self.on_change: Callable[[], None] = lambda: None

    async def keep_up(self) -> None:
        """Reload the files when they have changed, until cancelled; a thread accesses them."""
        before = self._stamps
        while self._path:
            await asyncio.sleep(self._check_seconds)
            now = await asyncio.to_thread(self._look)
            if now == before and now != self._stamps:
                await self._reload()
                now = self._stamps
            before = now

    async def _reload(self) -> None:
        try:
            policy = await asyncio.to_thread(self._load)
            self._weakens(policy)
        except ConfigError as error:
            self._state.reloaded = False
            _log.error("web configuration not reloaded: the last good one stays", error=str(error))
            return
        self.policy = policy
        self._state.reloaded = True
        self.on_change()
        _log.info(
            "web configuration reloaded",
            tls=policy.tls is not None,
            client_certificates=policy.requires_client,
            allowed_names=len(policy.tls.allowed) if policy.tls else 0,
            users=len(policy.users),
        )

    def _load(self) -> Policy:
        path = self._path or Path()
        # Take the stamp before reading: a change in the meantime causes another reload.
        self._stamps = {path: _stamp(path)}
        # YAML takes a MiB of memory, so load it only if access control is used.
        from exporter.web.access.configfile import read_web_config  # noqa: PLC0415 - see above
        from exporter.web.access.tls import tls_of  # noqa: PLC0415 - as above

        config = read_web_config(path)
        self._stamps |= {each: _stamp(each) for each in config.files if each != path}
        tls = tls_of(path, config.tls) if config.tls else None
        return Policy(tls, config.headers, config.users)

    def _look(self) -> dict[Path, _Stamp]:
        return {path: _stamp(path) for path in self._stamps}

    def _weakens(self, new: Policy) -> None:
        """ConfigError if the new policy drops some protection."""
        for what in weakened(self.policy, new):
            why = f"{what}: restart to serve with less protection"
            raise ConfigError(f"--web.config.file: {str(self._path)!r}: {why}")


def weakened(old: Policy, new: Policy) -> Iterator[str]:
    """What the new policy does not protect as the old one does."""
    if old.users and not new.users:
        yield "basic_auth_users is gone"
    for header in sorted(old.headers.keys() - new.headers.keys()):
        yield f"http_server_config.headers.{header} is gone"
    if old.tls and not new.tls:
        yield "tls_server_config is gone"
    if not (old.tls and new.tls):
        return
    if old.tls.requires_client and not new.tls.requires_client:
        yield "client_auth_type is gone"
    if old.tls.allowed and not new.tls.allowed:
        yield "client_allowed_sans is gone"
    if old.tls.context.minimum_version > new.tls.context.minimum_version:
        yield "min_version is lower"
    if old.tls.ciphers < new.tls.ciphers:
        yield "cipher_suites has more"


def _stamp(path: Path) -> _Stamp:
    """Distinguishes one content from another; None if there is no file."""
    try:
        seen = os.stat(path)  # noqa: PTH116 - in a thread, and a str or a Path alike
    except (OSError, ValueError):
        return None
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
