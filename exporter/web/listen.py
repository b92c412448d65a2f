"""Opens a listening socket, or explains in one line why it cannot."""

from __future__ import annotations

import errno
import os
import socket

from exporter.errors import ConfigError
from exporter.settings.flags import ListenAddress


def listen(address: ListenAddress, flag: str = "--web.listen-address") -> socket.socket:
    """Bind and listen; an empty host means all addresses of both families, if available."""
    try:
        if not address.host:
            if socket.has_dualstack_ipv6():
                return socket.create_server(
                    ("", address.port), family=socket.AF_INET6, dualstack_ipv6=True
                )
            return socket.create_server(("", address.port))
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((address.host, address.port), family=family)
    except UnicodeError:
        raise ConfigError(
            f"{flag}: {address.host!r} is no address of this machine: no such name"
        ) from None
    except OSError as error:
        raise ConfigError(f"{flag}: {_why(address, error)}") from None


def _why(address: ListenAddress, error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return f"{address.host!r} is no address of this machine: {error.strerror}"
    if error.errno == errno.EADDRINUSE:
        return f"{address} is in use by another process: stop it, or choose another port"
    if error.errno == errno.EACCES:
        return f"{address} is not ours to use: choose a port above 1023"
    return f"cannot listen on {address}: {os.strerror(error.errno or 0)}"
