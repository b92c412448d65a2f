"""The flags of `filter`."""

from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

from exporter.settings import flags
from exporter.settings.declaring import flag


class Passed(Enum):
    """Whose calls `filter` passes on."""

    RUNTIME = "runtime"
    KUBELET = "kubelet"


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """Whose calls `filter` passes on, where it serves, and which group may connect."""

    of: Passed = flag(
        "of SERVER",
        "runtime",
        flags.one_of(Passed),
        "whose calls to pass on: the runtime's, or those with which the kubelet shows its pods",
    )
    socket: Path = flag(
        "socket SOCKET",
        "unix:///run/shadow-pleg/cri.sock",
        partial(flags.socket_path, like="/run/shadow-pleg/cri.sock"),
        "socket to serve on (0660): the --runtime-endpoint of serve, or --kubelet-pods-endpoint",
    )
    socket_group: int | None = flag(
        "socket-group GID",
        "",
        flags.optional(flags.whole(0, 2**32 - 2)),
        "group that may connect (number): that of serve, and one of this process; if not given,"
        " the folder's",
    )
