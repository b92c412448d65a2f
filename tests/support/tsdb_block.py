"""Writes a block of Prometheus' TSDB: many series in seconds, where promtool would take hours.

Series of the same shape share their chunks, as all that differs is their labels. Format:
tsdb/docs/format in Prometheus' repository.
"""

import json
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

# As Prometheus cuts them.
_SAMPLES_PER_CHUNK = 120
_ULID = "01" + "0" * 24
_POLYNOMIAL = 0x82F63B78
# Bits of a time's second difference: largest magnitude, prefix, bits of the prefix, bits.
_TIME_CODES = ((1 << 13, 0b10, 2, 14), (1 << 16, 0b110, 3, 17), (1 << 19, 0b1110, 4, 20))


@dataclass(frozen=True, slots=True)
class Shape:
    """The samples of series that differ in their labels only; times are unix seconds."""

    times: Sequence[int]
    values: Sequence[float]


Labels = Mapping[str, str]


def write_block(folder: Path, series: Iterable[tuple[Labels, Shape]]) -> int:
    """Write the block below `folder`, a data directory; returns its number of samples."""
    home = folder / _ULID
    (home / "chunks").mkdir(parents=True)
    found = sorted(
        ((tuple(sorted(labels.items())), shape) for labels, shape in series), key=_labels
    )
    shapes = {id(shape): shape for _, shape in found}
    chunks, segment = _chunks(shapes)
    (home / "chunks" / "000001").write_bytes(segment)
    (home / "index").write_bytes(_index(found, chunks))
    times = [at for shape in shapes.values() for at in (shape.times[0], shape.times[-1])]
    number = sum(len(shape.times) for _, shape in found)
    meta = {
        "ulid": _ULID,
        "minTime": min(times) * 1000,
        "maxTime": max(times) * 1000 + 1,
        "stats": {"numSamples": number, "numSeries": len(found)},
        "compaction": {"level": 1, "sources": [_ULID]},
        "version": 1,
    }
    (home / "meta.json").write_text(json.dumps(meta), encoding="ascii")
    return number


# A chunk's first and last time in milliseconds, and its place in the segment.
_Chunk = tuple[int, int, int]
_Found = tuple[tuple[tuple[str, str], ...], Shape]


def _labels(found: _Found) -> tuple[tuple[str, str], ...]:
    return found[0]


def _chunks(shapes: Mapping[int, Shape]) -> tuple[dict[int, list[_Chunk]], bytes]:
    segment = bytearray(struct.pack(">IB3x", 0x85BD40DD, 1))
    found: dict[int, list[_Chunk]] = defaultdict(list)
    for key, shape in shapes.items():
        for begin in range(0, len(shape.times), _SAMPLES_PER_CHUNK):
            times = [at * 1000 for at in shape.times[begin : begin + _SAMPLES_PER_CHUNK]]
            values = shape.values[begin : begin + _SAMPLES_PER_CHUNK]
            found[key].append((times[0], times[-1], len(segment)))
            data = _xor_chunk(times, values)
            segment += _uvarint(len(data)) + b"\x01" + data + _crc(b"\x01" + data)
    return found, bytes(segment)


class _Bits:
    """Bits, the highest first."""

    def __init__(self) -> None:
        self.number, self.length = 0, 0

    def add(self, value: int, bits: int) -> None:
        self.number = self.number << bits | value & (1 << bits) - 1
        self.length += bits

    def encoded(self) -> bytes:
        padding = -self.length % 8
        return (self.number << padding).to_bytes((self.length + padding) // 8, "big")


def _xor_chunk(times: Sequence[int], values: Sequence[float]) -> bytes:
    bits = _Bits()
    raw = [struct.unpack(">Q", struct.pack(">d", value))[0] for value in values]
    for byte in struct.pack(">H", len(times)) + _varint(times[0]):
        bits.add(byte, 8)
    bits.add(raw[0], 64)
    deltas = [after - before for before, after in pairwise(times)]
    window = (64, 0)
    for i, delta in enumerate(deltas):
        if i == 0:
            for byte in _uvarint(delta):
                bits.add(byte, 8)
        else:
            _add_time(bits, delta - deltas[i - 1])
        window = _add_value(bits, raw[i] ^ raw[i + 1], window)
    return bits.encoded()


def _add_time(bits: _Bits, change: int) -> None:
    if change == 0:
        bits.add(0, 1)
        return
    for most, prefix, prefix_bits, size in _TIME_CODES:
        if -most < change <= most:
            bits.add(prefix, prefix_bits)
            bits.add(change, size)
            return
    bits.add(0b1111, 4)
    bits.add(change, 64)


def _add_value(bits: _Bits, changed: int, window: tuple[int, int]) -> tuple[int, int]:
    """`window`: leading and trailing zeros in use; returns those in use from now on."""
    if changed == 0:
        bits.add(0, 1)
        return window
    leading = min(64 - changed.bit_length(), 31)
    trailing = (changed & -changed).bit_length() - 1
    if leading >= window[0] and trailing >= window[1]:
        leading, trailing = window
        bits.add(0b10, 2)
    else:
        bits.add(0b11, 2)
        bits.add(leading, 5)
        bits.add(64 - leading - trailing, 6)
    bits.add(changed >> trailing, 64 - leading - trailing)
    return leading, trailing


def _index(found: Sequence[_Found], chunks: Mapping[int, list[_Chunk]]) -> bytes:
    out = bytearray(struct.pack(">IB", 0xBAAAD700, 2))
    words = sorted({text for labels, _ in found for pair in labels for text in pair} | {""})
    symbols = {text: number for number, text in enumerate(words)}
    at_symbols = len(out)
    out += _section(struct.pack(">I", len(words)) + b"".join(map(_text, words)))
    at_series = _aligned(out, 16)
    postings: dict[tuple[str, str], list[int]] = defaultdict(list)
    tails = {key: _chunk_refs(each) for key, each in chunks.items()}
    for labels, shape in found:
        number = _aligned(out, 16) // 16
        for pair in (("", ""), *labels):
            postings[pair].append(number)
        refs = b"".join(_uvarint(symbols[text]) for pair in labels for text in pair)
        content = _uvarint(len(labels)) + refs + tails[id(shape)]
        out += _uvarint(len(content)) + content + _crc(content)
    at_postings, table = _aligned(out, 4), bytearray(struct.pack(">I", len(postings)))
    for (name, value), numbers in sorted(postings.items()):
        table += b"\x02" + _text(name) + _text(value) + _uvarint(_aligned(out, 4))
        out += _section(struct.pack(f">{len(numbers) + 1}I", len(numbers), *numbers))
    at_table = len(out)
    out += _section(bytes(table))
    toc = struct.pack(">6Q", at_symbols, at_series, 0, 0, at_postings, at_table)
    return bytes(out + toc + _crc(toc))


def _chunk_refs(chunks: Sequence[_Chunk]) -> bytes:
    first, last, place = chunks[0]
    out = _uvarint(len(chunks)) + _varint(first) + _uvarint(last - first) + _uvarint(place)
    for (_, before, was), (first, last, place) in pairwise(chunks):
        out += _uvarint(first - before) + _uvarint(last - first) + _varint(place - was)
    return out


def _aligned(out: bytearray, size: int) -> int:
    out += bytes(-len(out) % size)
    return len(out)


def _section(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content + _crc(content)


def _text(text: str) -> bytes:
    return _uvarint(len(text.encode())) + text.encode()


def _uvarint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def _varint(number: int) -> bytes:
    return _uvarint(number << 1 if number >= 0 else ~(number << 1))


def _table() -> Iterator[int]:
    for byte in range(256):
        number = byte
        for _ in range(8):
            number = number >> 1 ^ (_POLYNOMIAL if number & 1 else 0)
        yield number


_CRC = tuple(_table())


def _crc(content: bytes) -> bytes:
    """CRC-32C, which no library here has."""
    number = 0xFFFFFFFF
    for byte in content:
        number = number >> 8 ^ _CRC[(number ^ byte) & 0xFF]
    return struct.pack(">I", number ^ 0xFFFFFFFF)
