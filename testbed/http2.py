"""A fast server for gRPC's clients, over h2.

gRPC's own server for Python sends about 15 000 messages a second from one core, as many as its
client reads: a load test would measure the server. This one sends a DATA frame for each message, as
gRPC does, but writes many at once; what the client does not take waits here.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection

# Bytes that may wait for the kernel: as many as gRPC for Go lets a stream queue.
_QUOTA: Final = 64 * 1024
_OPENING: Final = ((":status", "200"), ("content-type", "application/grpc"))
_CONFIG: Final = H2Configuration(client_side=False, header_encoding=None)


def framed(message: bytes) -> bytes:
    """The message with gRPC's prefix: not compressed, and its length."""
    return b"\0" + len(message).to_bytes(4, "big") + message


class Stream:
    """One call and its answer."""

    def __init__(self, connection: "Connection", number: int, path: str) -> None:
        self.path = path
        self._connection, self._number = connection, number
        self._pending: deque[bytes | memoryview] = deque()
        self._status = self._details = ""
        self._opened = False

    @property
    def waits(self) -> bool:
        """Whether messages wait for the client or the kernel."""
        return bool(self._pending)

    @property
    def unsent(self) -> int:
        """Bytes that the kernel has not taken."""
        transport = self._connection.transport
        kept = transport.get_write_buffer_size() if transport else 0
        return sum(map(len, self._pending)) + kept

    def put(self, messages: Iterable[bytes]) -> None:
        """Send messages that have gRPC's prefix already."""
        self._pending.extend(messages)
        self.pump()

    def answer(self, *messages: bytes) -> None:
        """Send these messages, and end the call."""
        self.put([framed(message) for message in messages])
        self.finish()

    def finish(self, status: int = 0, details: str = "") -> None:
        """End the call with that gRPC status, after the messages that wait."""
        self._status, self._details = str(status), details
        self.pump()

    def pump(self) -> None:
        """Send as much as the windows and the kernel's buffer allow."""
        connection, number, h2 = self._connection, self._number, self._connection.h2
        if number not in connection.streams:
            return
        if not self._opened:
            self._opened = True
            h2.send_headers(number, _OPENING)
        size = 0
        while self._pending and not connection.paused:
            room = min(h2.local_flow_control_window(number), h2.max_outbound_frame_size)
            if room <= 0:
                break
            body = self._pending.popleft()
            if len(body) > room:
                whole = memoryview(body)
                body = whole[:room]
                self._pending.appendleft(whole[room:])
            h2.send_data(number, bytes(body))
            size += len(body)
            if size >= _QUOTA:
                connection.flush()
                size = 0
        if self._status and not self._pending:
            del connection.streams[number]
            ends = (("grpc-status", self._status), ("grpc-message", self._details))
            h2.send_headers(number, ends if self._details else ends[:1], end_stream=True)
        connection.flush()


class Connection(asyncio.Protocol):
    """One client. Calls `on_call` with each whole request, and `on_move` when windows open."""

    def __init__(self, on_call: Callable[[Stream], None], on_move: Callable[[], None]) -> None:
        self.streams: dict[int, Stream] = {}
        self.h2 = H2Connection(_CONFIG)
        self.paused = False
        self._on_call = on_call
        self._on_move = on_move
        self.transport: asyncio.Transport | None = None

    def flush(self) -> None:
        """Write what h2 has to send."""
        data = self.h2.data_to_send()
        if self.transport and data:
            self.transport.write(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("not a stream socket")
        self.transport = transport
        transport.set_write_buffer_limits(high=_QUOTA)
        self.h2.initiate_connection()
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's own
        """Nothing is sent any more."""
        self.transport = None
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
        """Handle what the client sent; windows may be wider then."""
        received = self.h2.receive_data(data)
        # A call that its client has given up may come together with that.
        reset = {each.stream_id for each in received if isinstance(each, events.StreamReset)}
        for event in received:
            match event:
                case events.RequestReceived():
                    path = dict(event.headers)[b":path"].decode()
                    self.streams[event.stream_id] = Stream(self, event.stream_id, path)
                case events.DataReceived():
                    size, number = event.flow_controlled_length, event.stream_id
                    self.h2.acknowledge_received_data(size, number)
                case events.StreamEnded() if event.stream_id not in reset:
                    self._on_call(self.streams[event.stream_id])
                case events.StreamReset():
                    self.streams.pop(event.stream_id, None)
        self.flush()
        self._pump()

    def _pump(self) -> None:
        for stream in [each for each in self.streams.values() if each.waits]:
            stream.pump()
        self._on_move()
