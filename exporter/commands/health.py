"""`health` and `condition`: ask a `serve` on this machine.

`health` asks /livez, for a container's health check. `condition` is a plugin of
node-problem-detector: its own failures are an UnknownError, never a problem of the node. Blind
spot: it does not know the flags of that `serve`.
"""

import http.client
import queue
import ssl
import threading
from typing import Final

from exporter.conditions.condition import NodeCondition
from exporter.errors import ConfigError, UnknownError, printable, say
from exporter.settings.config import Config
from exporter.settings.flags import ListenAddress
from exporter.settings.routes import LIVEZ, MOST_CHARACTERS

_EVERY_ADDRESS: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - asked, not bound

# The same words as the socket module's.
TIMED_OUT: Final = "timed out"
# A probe's page is a single line.
_MOST_BYTES: Final = 4096
_HOLDS: Final = {http.client.OK: False, http.client.SERVICE_UNAVAILABLE: True}


def holds(config: Config, condition: NodeCondition, timeout: float = 3.0) -> bool:
    """Whether that condition holds; prints one line. UnknownError if that is not known."""
    status, said = ask(config, condition.path, timeout)
    line = said[:MOST_CHARACTERS]
    if status not in _HOLDS:
        raise UnknownError(line or "not known")
    say(f"{line}\n")
    return _HOLDS[status]


def healthy(config: Config, timeout: float = 2.0) -> bool:
    """Whether /livez returns ok; prints its answer. ConfigError if there is no port to query."""
    status, said = ask(config, LIVEZ, timeout)
    say(f"{said}\n")
    return status == http.client.OK


def address_of(config: Config) -> ListenAddress:
    """The address at which a `serve` with these settings answers probes."""
    return config.web_probe_address or config.web_listen_address


def ask(config: Config, path: str, timeout: float) -> tuple[int, str]:
    """Status and first line of a probe's page; status 0 and the reason if there is no answer.

    The line is printable, because another process may have the port. ConfigError if the port is 0.
    """
    address = address_of(config)
    if not address.port:
        raise ConfigError("--web.listen-address: port 0 is any free one: name the port to ask")
    host = _EVERY_ADDRESS.get(address.host, address.host)
    # Only the file determines whether there is TLS; a separate probe port has none.
    tls = bool(config.web_config_file) and config.web_probe_address is None
    said = ""
    for connection in _connections(host, address.port, timeout, tls=tls):
        # A socket's own timeout restarts with each byte: so ask in a thread that can be abandoned.
        answers: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        threading.Thread(target=_ask, args=(connection, path, answers), daemon=True).start()
        try:
            status, said = answers.get(timeout=timeout)
        except queue.Empty:
            status, said = 0, TIMED_OUT
        if status == http.client.NOT_FOUND:
            said = f"HTTP 404 from {address}: name the port of serve's probes"
        if status:
            return status, said
    return 0, f"no answer from {address}: {said}"


def _connections(
    host: str, port: int, timeout: float, *, tls: bool
) -> list[http.client.HTTPConnection]:
    """The connections to try, in order."""
    plain = http.client.HTTPConnection(host, port, timeout=timeout)
    if not tls:
        return [plain]
    # Like a kubelet's probe: the server is on this machine, and its certificate has another name.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return [http.client.HTTPSConnection(host, port, timeout=timeout, context=context), plain]


def _ask(
    connection: http.client.HTTPConnection, path: str, answers: queue.SimpleQueue[tuple[int, str]]
) -> None:
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        said = response.read(_MOST_BYTES).decode(errors="replace")
        answers.put((response.status, printable(said.strip().partition("\n")[0])))
    except (OSError, ValueError, http.client.HTTPException) as error:
        answers.put((0, printable(str(error))))
    finally:
        connection.close()
