"""What a runtime may send at most.

A call that exceeds it fails, and content that does is left out or cut; both are counted. Together
these limits keep the process below the 256 MiB of the DaemonSet, and the event loop free, whatever
a runtime sends: `tests/cri/test_hostile_runtime.py` measures it.
"""

import math
from typing import Final

_MIB: Final = 1024 * 1024
# Either list, in one message or in many. The kubelet takes 16 MiB in one message; while gRPC
# receives one, it holds it three times.
LIST_BYTES: Final = 32 * _MIB
# Kubernetes' runtimes can send 16 MiB in one message.
NEARLY_UNSENDABLE_BYTES: Final = 12 * _MIB
# What a message of a streamed list takes in addition.
LISTED_BYTES: Final = 128
# Any other message, and one entry of a list: as much as a kubelet takes. An event holds statuses of
# all containers of its pod, with their annotations. To parse that much takes up to 70 ms.
MESSAGE_BYTES: Final = 16 * _MIB
# What both lists may take once they are decoded: some 120 000 containers with usual names.
LIST_MEMORY: Final = 160 * _MIB
# Of that, an entry without its texts; those are held twice, by the ledger and by the next list.
ENTRY_MEMORY: Final = 1024
# More entries than these exceed it, whatever they are.
LIST_ENTRIES: Final = LIST_MEMORY // ENTRY_MEMORY
# Of larger lists, the entries' bytes are not kept until the next ones, and all is decoded again.
KEPT_BYTES: Final = 32 * _MIB
# Containers and sandboxes held at a time, where lists replace each other: those that are gone are
# kept until they are judged. Without this, 59 429 beside as many took 265 MiB; with 120 000, three
# generations of 22 857 and all that strangers can do at once took as much.
KNOWN: Final = 75_000
# So many may always come, beside however many known ones.
SPARE: Final = 4_000
# Of each that may still come, for its bytes and those of its entry: 40 000 with names of 140 wide
# letters beside as many took 272 MiB without this.
NEW_BYTES: Final = 256
# An event of more bytes may have so many fields: two bytes of it can become a hundred in memory.
UNCOUNTED_BYTES: Final = 64 * 1024
EVENT_FIELDS: Final = 1024
# No event with an id and a time is smaller. So many that are end the subscription: gRPC needs nine
# times their size while they wait, which makes 370 MiB of its window.
LEAST_EVENT_BYTES: Final = 13
TINY_EVENTS: Final = 1000
# Characters of an id or a name; Kubernetes' own have 253 at most.
TEXT: Final = 256
# Characters of an error's message.
DETAILS: Final = 1000


def entries_of(size: int) -> int:
    """How many entries lists of that size, in bytes, may have; a text is ASCII, and in them."""
    return (LIST_MEMORY - 2 * size) // ENTRY_MEMORY


def room_beside(live: int) -> float:
    """How many bytes new entries may take beside so many known ones, which may all be gone."""
    return NEW_BYTES * max(SPARE, KNOWN - live) if live else math.inf
