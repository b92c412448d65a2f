"""The node's runtime as the loops reach it: one shared connection, others on demand."""

from __future__ import annotations

from pathlib import Path

from exporter.cri.client import CriClient
from exporter.cri.sockets import choose_socket
from exporter.settings.config import DEFAULT_SOCKETS


class Endpoint:
    """Where the runtime is. `explicit`: its socket, or None to look for one."""

    def __init__(self, explicit: Path | None) -> None:
        self._explicit = explicit
        self._shared: CriClient | None = None

    def socket(self) -> Path:
        """The runtime's socket; CriUnavailableError while there is none."""
        return choose_socket(self._explicit, DEFAULT_SOCKETS)

    def shared(self) -> CriClient:
        """The connection for lists and inquiries."""
        if self._shared is None:
            self._shared = CriClient(self.socket())
        return self._shared

    def separate(self) -> CriClient:
        """A separate connection for a subscription; the caller closes it."""
        return CriClient(self.socket(), patient=True)

    def reconsider(self) -> None:
        """Retry features that the previous runtime lacked; the runtime was replaced."""
        if self._shared is not None:
            self._shared.reconsider()

    async def close(self) -> None:
        """Close the shared connection."""
        if self._shared is not None:
            await self._shared.close()
            self._shared = None
