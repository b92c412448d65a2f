"""The most that a runtime may send.

A call that exceeds a limit fails; content that does is left out or cut. Both are counted. Together
these limits keep the process below the 256 MiB of the DaemonSet, and the event loop free, whatever
a runtime sends: `tests/cri/test_hostile_runtime.py` measures it.
"""

import math
from typing import Final

_MIB: Final = 1024 * 1024
# Of either list, in one message or in many. The kubelet takes 16 MiB in one message. While gRPC
# receives a message, it holds that three times.
LIST_BYTES: Final = 32 * _MIB
# Kubernetes' runtimes can send 16 MiB in one message.
NEARLY_UNSENDABLE_BYTES: Final = 12 * _MIB
# Memory for a message of a streamed list, besides its bytes.
LISTED_BYTES: Final = 128
# Of any other message, and of one entry of a list: as much as a kubelet takes. An event holds the
# statuses of all containers of its pod, with annotations. Parsing so much takes up to 70 ms.
MESSAGE_BYTES: Final = 16 * _MIB
# Memory of both lists once they are decoded: some 120 000 containers with usual names.
LIST_MEMORY: Final = 160 * _MIB
# Of that, one entry without its texts, which are held twice: by the ledger and by the next list.
ENTRY_MEMORY: Final = 1024
# More entries exceed `LIST_MEMORY`, whatever they are.
LIST_ENTRIES: Final = LIST_MEMORY // ENTRY_MEMORY
# The entries' bytes of larger lists are not kept, so the next lists are decoded as a whole.
KEPT_BYTES: Final = 32 * _MIB
# Containers and sandboxes held at a time if each list replaces all of the one before: gone ones are
# kept until they are judged. Without this limit, two generations of 59 429 took 265 MiB. With
# 120 000, three of 22 857, and all that other clients can do at once, took as much.
KNOWN: Final = 75_000
# So many may always come, however many are known.
SPARE: Final = 4_000
# Bytes for each that may still come; it takes as many, and those of its entry. Without this,
# 40 000 with names of 140 wide letters, beside as many known ones, took 272 MiB.
NEW_BYTES: Final = 256
# An event of more bytes may have at most `EVENT_FIELDS`: two of its bytes can become 100 in memory.
UNCOUNTED_BYTES: Final = 64 * 1024
EVENT_FIELDS: Final = 1024
# No event with an id and a time is smaller. `TINY_EVENTS` smaller ones end the subscription: while
# they wait, gRPC needs nine times their size, so its window takes 370 MiB.
LEAST_EVENT_BYTES: Final = 13
TINY_EVENTS: Final = 1000
# Characters of an id or a name; Kubernetes' own have 253 at most.
TEXT: Final = 256
# Characters of an error's message.
DETAILS: Final = 1000


def entries_of(size: int) -> int:
    """How many entries lists of `size` bytes may have; that includes their texts, all ASCII."""
    return (LIST_MEMORY - 2 * size) // ENTRY_MEMORY


def room_beside(live: int) -> float:
    """How many bytes new entries may take beside `live` known ones, which may all be gone."""
    return NEW_BYTES * max(SPARE, KNOWN - live) if live else math.inf
