"""The subscription: subscribe if allowed, hold it, and retry when it is lost.

States: connecting -> streaming -> backoff -> connecting ...; `disabled` when the runtime ends the
stream cleanly at once, `unsupported` when it has none, `refused` when subscribing could harm the
kubelet. These three are retried slowly, since an operator may change them at any time, and
`refused` at once when the kubelet turns out not to use the events. Never more than one attempt per
second. Blind spot: while nothing happens, a stream that works and one that hangs look the same;
only the relist tells them apart.
"""

import asyncio
import itertools
import math
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from exporter.cri.client import CLEAN, CriClient, RuntimeVersion, StreamEnd
from exporter.errors import ConfigError, CriError, CriUnimplementedError
from exporter.kubelet.poller import GAVE_WAY, KubeletPoller
from exporter.kubelet.state import Announces
from exporter.loops.intake import Intake, Shared
from exporter.loops.lease import ANSWER_TIMEOUT, LeasedStream
from exporter.node.state import RuntimeInfo, StreamState, announces_of
from exporter.pleg.facts import (
    ProfileChosen,
    StreamAsked,
    StreamDown,
    StreamRefused,
    StreamUnproven,
    StreamUp,
)
from exporter.pleg.profiles import PROFILES, Profile, StreamKind, profile_of
from exporter.settings.config import EventStream
from exporter.timing.backoff import MIN_SPACING, Backoff

_log = structlog.get_logger()

_SLOW_RETRY_SECONDS: Final = 60.0
_SLOW: Final = (StreamState.DISABLED, StreamState.UNSUPPORTED, StreamState.REFUSED)
# These get no lease, which would end their subscription every minute. A fragile runtime can crash
# when a client disconnects. One with a single channel sends its next event to the client that has
# left, where it is lost.
_UNLEASED: Final = (StreamKind.FRAGILE, StreamKind.EXCLUSIVE)


@dataclass(frozen=True, slots=True)
class Ending:
    """How one attempt ended: the resulting state, the reason, seconds of streaming.

    `ended_at`: when it ended, if that was earlier than it was noticed.
    """

    state: StreamState
    note: str
    reason: str = ""
    streamed: float = 0.0
    ended_at: float = math.inf


class Streaming:
    """Maintains the subscription; `relist_soon` is called whenever it begins or ends.

    `poller`: polls the kubelet, if one is configured; it decides whether the exporter may use a
    stream that is limited to one subscriber.
    """

    def __init__(
        self,
        shared: Shared,
        intake: Intake,
        poller: KubeletPoller | None,
        relist_soon: Callable[[], None],
    ) -> None:
        self._shared = shared
        self._intake = intake
        self._poller = poller
        # The poller while it decides for the current runtime.
        self._arbiter: KubeletPoller | None = None
        self._relist_soon = relist_soon
        # Whether a relist that worked has already led to an attempt since the stream was lost.
        self._hurried = False
        self._backoff = Backoff()
        self._returns = Backoff()
        self._numbers = itertools.count()
        self._met = False
        self._last = StreamState.CONNECTING

    async def run(self) -> None:
        """Subscribe until cancelled. ConfigError if the first answer shows no CRI v1."""
        while True:
            tried_at = time.monotonic()
            if self._shared.node.stream not in _SLOW:
                self._shared.node.stream = StreamState.CONNECTING
            ending = await self._attempt()
            self._conclude(ending)
            await self._rest(ending, tried_at)

    async def _attempt(self) -> Ending:
        try:
            client = self._shared.endpoint.separate()
        except CriError as error:
            return Ending(StreamState.BACKOFF, str(error), error.reason)
        try:
            profile = self._introduce(await client.version(ANSWER_TIMEOUT))
            if self._arbiter:
                await self._arbiter.wait_for_first_reading(ANSWER_TIMEOUT)
            return self._declined(profile) or await self._watch(client, profile)
        except CriUnimplementedError as error:
            if not self._met:
                raise ConfigError(_no_cri(client.socket, error)) from None
            return Ending(StreamState.BACKOFF, str(error), error.reason)
        except CriError as error:
            return Ending(StreamState.BACKOFF, str(error), error.reason)
        finally:
            await client.close()

    def _introduce(self, version: RuntimeVersion) -> Profile:
        self._met = True
        chosen = ProfileChosen(time.monotonic(), version.name, version.version)
        self._shared.chronicle.take(chosen)
        profile = profile_of(version.name, version.version)
        known = self._shared.node.runtime
        found = RuntimeInfo(version.name, version.version, version.api_version, profile.stream)
        if found != known:
            self._shared.endpoint.reconsider()
            self._shared.node.runtime = found
            self._shared.node.announces = Announces.UNKNOWN
        self._arbiter = self._poller if self._kubelet_decides(profile) else None
        if self._poller:
            self._poller.watch(self._arbiter is not None)
        return profile

    def _declined(self, profile: Profile) -> Ending | None:
        """Why not to subscribe to this runtime; None if there is no objection."""
        wish = self._shared.config.event_stream
        if wish is EventStream.NEVER:
            return Ending(StreamState.REFUSED, "--event-stream=never: relist only")
        if wish is EventStream.ALWAYS or profile.stream is StreamKind.BROADCAST:
            return None
        if profile.stream is StreamKind.NONE:
            return Ending(StreamState.UNSUPPORTED, f"{profile.why}: relist only")
        if not self._arbiter:
            note = f"{profile.why}: relist only; "
            if self._kubelet_decides(profile):
                note += "--kubelet-metrics-url subscribes while the kubelet does not; "
            return Ending(StreamState.REFUSED, f"{note}--event-stream=always subscribes regardless")
        if objection := self._arbiter.objection():
            return Ending(StreamState.REFUSED, f"{profile.why}: relist only; {objection}")
        return None

    def _kubelet_decides(self, profile: Profile) -> bool:
        """Whether the kubelet decides; it cannot for a runtime that is missing from the table."""
        return (
            self._shared.config.event_stream is EventStream.AUTO
            and profile.stream is StreamKind.EXCLUSIVE
            and profile in PROFILES
        )

    async def _watch(self, client: CriClient, profile: Profile) -> Ending:
        lease = 0.0 if profile.stream in _UNLEASED else self._shared.config.stream_lease
        began_ns, take = time.time_ns(), self._shared.chronicle.take
        offer = self._intake.offer

        def offer_queued(raw: bytes, number: int) -> StreamEnd | None:
            if stream.brought == 1:
                take(StreamUp(time.monotonic(), began_ns))
            return offer(raw, number)

        # Earlier clients that left a single channel are still queued in it and take one event each.
        queued = profile.stream is StreamKind.EXCLUSIVE
        stream = LeasedStream(
            client,
            offer_queued if queued else offer,
            lease,
            self._numbers,
            lambda: take(StreamUnproven(time.monotonic())),
        )
        # Before the first event: a runtime sends what it kept for its first subscriber at once.
        take(StreamAsked(time.monotonic(), began_ns))
        try:
            held = await stream.open()
            if held.reader.done() and not stream.brought:
                return _stillborn(held.reader.result())
            if not queued:
                take(StreamUp(held.answered_at, began_ns))
            elif not stream.brought:
                take(StreamDown(held.answered_at))
            self._up(lease)
            holding = stream.hold(held)
            end = await (self._arbiter.while_granted(holding) if self._arbiter else holding)
            ended_at = min(time.monotonic(), stream.ended_at)
        finally:
            await stream.close()
        self._shared.node.disconnects[end.reason] += 1
        state, note = StreamState.BACKOFF, end.note
        if end.reason == GAVE_WAY:
            state, note = StreamState.REFUSED, f"{profile.why}: relist only; {note}"
        return Ending(state, note, end.reason, ended_at - held.answered_at, ended_at=ended_at)

    def _up(self, lease: float) -> None:
        node = self._shared.node
        node.connections += 1
        node.stream, node.stream_note = StreamState.STREAMING, ""
        node.stream_reason, node.stream_retry_wall = "", 0.0
        node.announces = Announces.ON
        _log.info("subscribed to the event stream", lease_seconds=lease, **self._runtime())
        self._hurried = False
        self._relist_soon()

    def _conclude(self, ending: Ending) -> None:
        node = self._shared.node
        if self._has_no_stream(ending):
            self._shared.chronicle.take(StreamRefused(time.monotonic()))
            profile = self._shared.chronicle.profile
            node.announces = announces_of(ending.state, profile, node.announces)
        else:
            ended_at = min(time.monotonic(), ending.ended_at)
            self._shared.chronicle.take(StreamDown(ended_at))
            if ending.streamed:
                self._relist_soon()
        write = _log.debug if ending.note == node.stream_note else _log.warning
        ended = "left" if ending.state is StreamState.REFUSED else "lost"
        text = f"event stream {ended if ending.streamed else ending.state.value}"
        fields = {"reason": ending.reason} if ending.reason else {}
        write(text, error=ending.note, **fields, **self._runtime())
        node.stream, node.stream_note = ending.state, ending.note
        node.stream_reason = ending.reason

    def _has_no_stream(self, ending: Ending) -> bool:
        """Whether there is no stream to judge; a single clean end may be a restart."""
        if ending.state is StreamState.DISABLED:
            return self._last is StreamState.DISABLED
        return ending.state in _SLOW

    def _runtime(self) -> dict[str, str]:
        runtime = self._shared.node.runtime
        return {"runtime": f"{runtime.name} {runtime.version}"} if runtime else {}

    async def _rest(self, ending: Ending, tried_at: float) -> None:
        pause = self._pause(ending, tried_at)
        self._shared.node.stream_retry_wall = time.time() + pause
        if ending.state is StreamState.BACKOFF and not self._hurried:
            await self._wait_for_relist(pause, tried_at)
            return
        if ending.state is not StreamState.REFUSED:
            await asyncio.sleep(pause)
            return
        # Wait longer each time before returning to a stream that had to be dropped, until one has
        # lasted for a while.
        held = ending.streamed or math.inf
        least = min(pause, self._returns.delay(tried_at, time.monotonic(), held, dice=0.0))
        await asyncio.sleep(least)
        if self._arbiter:
            await self._arbiter.wait_until_granted(pause - least)
        else:
            await asyncio.sleep(pause - least)

    async def _wait_for_relist(self, pause: float, tried_at: float) -> None:
        """Wait for a relist that works, which shows that the runtime is back, or for `pause`."""
        answered = self._shared.answered
        answered.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                self._hurried = await answered.wait()
        await asyncio.sleep(max(0.0, tried_at + MIN_SPACING - time.monotonic()))

    def _pause(self, ending: Ending, tried_at: float) -> float:
        dice = random.random()  # noqa: S311 - jitter, not a secret
        first, self._last = self._last is not ending.state, ending.state
        delay = self._backoff.delay(tried_at, time.monotonic(), ending.streamed, dice)
        # A runtime that is shutting down may end one stream cleanly, so check again before
        # believing it.
        if ending.state not in _SLOW or (ending.state is StreamState.DISABLED and first):
            return delay
        return _SLOW_RETRY_SECONDS * (1 + dice / 2)


def _stillborn(end: StreamEnd) -> Ending:
    """What a stream that ended right after the request reveals about the runtime."""
    if end == CLEAN:
        return Ending(
            StreamState.DISABLED,
            "the runtime ends the stream at once, its events are switched off:"
            " on CRI-O set enable_pod_events = true in [crio.runtime]",
            "eof",
        )
    state = StreamState.UNSUPPORTED if end.unimplemented else StreamState.BACKOFF
    return Ending(state, end.note, end.reason)


def _no_cri(socket: Path, error: CriError) -> str:
    return (
        f"--runtime-endpoint: unix://{socket} speaks gRPC but not CRI v1 ({error}):"
        " name the runtime's CRI socket, or enable its CRI plugin"
    )
