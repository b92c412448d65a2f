"""A recording's compression: consecutive gzip members, each with its own checksum.

Any gzip tool reads them as one file. A member holds whole lines and is written at once: if a file
is damaged, the members before the damage can be trusted.
"""

import gzip
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final

from exporter.errors import DamageError

_CHUNK_BYTES: Final = 64 * 1024
# More than a runtime's largest lists produce; this stops a decompression bomb.
_LARGEST_BYTES: Final = 128 * 1024 * 1024
_GZIP: Final = 16 + zlib.MAX_WBITS


def member(text: bytes) -> bytes:
    """Compress one member."""
    return gzip.compress(text, compresslevel=6, mtime=0)


def members(file: BinaryIO, largest: int = _LARGEST_BYTES) -> Iterator[tuple[int, bytes]]:
    """Yield each member's offset and text; DamageError at the first incomplete or too large one."""
    at, data = 0, file.read(_CHUNK_BYTES)
    while data:
        unpacking, text, taken = zlib.decompressobj(_GZIP), bytearray(), 0
        while not unpacking.eof:
            try:
                text += unpacking.decompress(data, largest + 1 - len(text))
            except zlib.error as error:
                raise DamageError(at, f"it is no gzip, or altered ({error})") from None
            if len(text) > largest:
                raise DamageError(at, f"it unpacks to more than {largest} bytes")
            taken += len(data)
            data = unpacking.unused_data or file.read(_CHUNK_BYTES)
            if not (data or unpacking.eof):
                raise DamageError(at, "the file ends in the middle of it")
        yield at, bytes(text)
        at += taken - len(unpacking.unused_data)
