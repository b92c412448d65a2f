"""As much of an HTTP/2 server as gRPC's client needs, and that sends fast.

gRPC's own server for Python sends about 15 000 messages a second from one core,
no more than its client reads: it would measure itself. This one frames messages
as gRPC does, one DATA frame each, but writes many at once, and keeps to the
client's flow control: what the client does not take waits here. Here: frames,
windows, streams. Not here: what is answered (`firehose`). What gRPC's clients,
for C and for Go, do not do (headers with padding, or too long for one frame)
is not understood.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from hpack import Decoder

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADER: Final = struct.Struct(">HBBBI")
_HEADER_BYTES: Final = 9
_SETTING: Final = struct.Struct(">HI")
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
_ACK: Final = 1
_END_STREAM: Final = 1
_END_HEADERS: Final = 4
_INITIAL_WINDOW_SIZE: Final = 4
_FIRST_WINDOW: Final = 65535
_LARGEST_FRAME: Final = 16384
# How much may wait between us and the kernel: as much as gRPC for Go lets a stream queue.
_QUOTA: Final = 64 * 1024
# :status 200 and content-type application/grpc, from HPACK's static table.
_OPENING: Final = b"\x88\x0f\x10\x10application/grpc"


def framed(message: bytes) -> bytes:
    """With gRPC's prefix: not compressed, and the length."""
    return b"\0" + len(message).to_bytes(4, "big") + message


class Stream:
    """One call: what was asked, and its answer on the way out."""

    def __init__(self, connection: Connection, number: int, path: str, window: int) -> None:
        self.path = path
        self.request = b""
        self.window = window
        self._connection = connection
        self._number = number
        self._pending: deque[bytes | memoryview] = deque()
        self._trailers = b""
        self._opened = False

    @property
    def waits(self) -> bool:
        """Whether there is something that the client or the kernel does not take."""
        return bool(self._pending)

    @property
    def unsent(self) -> int:
        """Bytes of messages, with what lies in the connection's buffer, not given to the kernel."""
        return sum(map(len, self._pending)) + self._connection.buffered

    def put(self, messages: Iterable[bytes]) -> None:
        """Send messages that have gRPC's prefix already."""
        self._pending.extend(messages)
        self.pump()

    def answer(self, *messages: bytes) -> None:
        """Send these messages, and end the call."""
        self.put([framed(message) for message in messages])
        self.finish()

    def finish(self, status: int = 0) -> None:
        """End the call with that gRPC status, after all that waits."""
        text = str(status).encode()
        self._trailers = b"\x00\x0bgrpc-status" + bytes([len(text)]) + text
        self.pump()

    def pump(self) -> None:
        """Send as much as the windows and the kernel's buffer allow."""
        connection = self._connection
        out: list[bytes | memoryview] = []
        if not self._opened:
            self._opened = True
            out += (_frame(_HEADERS, _END_HEADERS, self._number, len(_OPENING)), _OPENING)
        size = 0
        while self._pending and not connection.paused:
            body = self._pending.popleft()
            room = min(len(body), self.window, connection.window, _LARGEST_FRAME)
            if room <= 0:
                self._pending.appendleft(body)
                break
            if room < len(body):
                whole = memoryview(body)
                body = whole[:room]
                self._pending.appendleft(whole[room:])
            out += (_frame(_DATA, 0, self._number, room), body)
            self.window -= room
            connection.window -= room
            size += room
            if size >= _QUOTA:
                connection.write(b"".join(out))
                out, size = [], 0
        if self._trailers and not self._pending:
            flags = _END_HEADERS | _END_STREAM
            out += (_frame(_HEADERS, flags, self._number, len(self._trailers)), self._trailers)
            connection.streams.pop(self._number, None)
        if out:
            connection.write(b"".join(out))


class Connection(asyncio.Protocol):
    """One client. `on_call` is given each call once it is whole, `on_move` when windows open."""

    def __init__(self, on_call: Callable[[Stream], None], on_move: Callable[[], None]) -> None:
        self.streams: dict[int, Stream] = {}
        self.window = _FIRST_WINDOW
        self.paused = False
        self._on_call = on_call
        self._on_move = on_move
        self._stream_window = _FIRST_WINDOW
        self._received = bytearray()
        self._greeted = False
        # Every block of headers may name what earlier ones spelt out.
        self._headers = Decoder()
        self._transport: asyncio.Transport | None = None

    @property
    def buffered(self) -> int:
        """Bytes that the kernel has not taken."""
        return self._transport.get_write_buffer_size() if self._transport else 0

    def close(self) -> None:
        """Leave the client, if it is still there."""
        if self._transport:
            self._transport.abort()

    def write(self, data: bytes) -> None:
        """To the kernel, or after what already waits for it."""
        if self._transport:
            self._transport.write(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("not a stream socket")
        self._transport = transport
        transport.set_write_buffer_limits(high=_QUOTA)
        self.write(_frame(_SETTINGS, 0, 0, 0))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's own
        """The peer is gone."""
        self._transport = None
        self.streams.clear()
        self._on_move()

    def pause_writing(self) -> None:
        """The kernel's buffer is full."""
        self.paused = True

    def resume_writing(self) -> None:
        """The kernel's buffer has room again."""
        self.paused = False
        self._pump()

    def data_received(self, data: bytes) -> None:
        """Take what is whole of it."""
        received = self._received
        received += data
        if not self._greeted:
            if len(received) < len(_PREFACE):
                return
            del received[: len(_PREFACE)]
            self._greeted = True
        while len(received) >= _HEADER_BYTES:
            high, low, kind, flags, number = _HEADER.unpack_from(received)
            end = _HEADER_BYTES + (high << 8 | low)
            if len(received) < end:
                break
            payload = bytes(received[_HEADER_BYTES:end])
            del received[:end]
            self._take(kind, flags, number, payload)

    def _take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        stream = self.streams.get(number)
        if kind == _HEADERS:
            path = dict(self._headers.decode(payload, raw=True))[b":path"].decode()
            self.streams[number] = Stream(self, number, path, self._stream_window)
        elif kind == _DATA and stream:
            stream.request += payload
            if flags & _END_STREAM:
                self._on_call(stream)
        elif kind == _RST_STREAM:
            self.streams.pop(number, None)
            self._on_move()
        elif kind == _SETTINGS and not flags & _ACK:
            self._set(payload)
        elif kind == _PING and not flags & _ACK:
            self.write(_frame(_PING, _ACK, 0, len(payload)) + payload)
        elif kind == _WINDOW_UPDATE:
            self._widen(stream, number, int.from_bytes(payload, "big"))

    def _set(self, payload: bytes) -> None:
        for name, value in _SETTING.iter_unpack(payload):
            if name == _INITIAL_WINDOW_SIZE:
                for stream in self.streams.values():
                    stream.window += value - self._stream_window
                self._stream_window = value
        self.write(_frame(_SETTINGS, _ACK, 0, 0))
        self._pump()

    def _widen(self, stream: Stream | None, number: int, more: int) -> None:
        if number == 0:
            self.window += more
            self._pump()
        elif stream:
            stream.window += more
            stream.pump()
            self._on_move()

    def _pump(self) -> None:
        for stream in list(self.streams.values()):
            if stream.waits:
                stream.pump()
        self._on_move()


def _frame(kind: int, flags: int, number: int, size: int) -> bytes:
    return _HEADER.pack(size >> 8, size & 0xFF, kind, flags, number)
