"""The subscription: subscribe if allowed, hold it, and retry when it is lost.

States: connecting -> streaming -> backoff -> connecting ...; `disabled` when the runtime ends the
stream cleanly at once, `unsupported` when it has none, `refused` when subscribing could harm the
kubelet. These three are retried slowly, since an operator may change them at any time, and
`refused` at once when the kubelet turns out not to use the events. Never more than one attempt per
second. Blind spot: while nothing happens, a stream that works and one that hangs look the same;
only the relist tells them apart.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from exporter.cri.client import CLEAN, CriClient, RuntimeVersion, StreamEnd
from exporter.errors import ConfigError, CriError, CriUnimplementedError
from exporter.kubelet.state import GAVE_WAY, Announces
from exporter.loops.intake import Intake, Shared
from exporter.loops.lease import ANSWER_TIMEOUT, LeasedStream
from exporter.loops.retrying import SLOW, Ending, Retrying
from exporter.node.state import RuntimeInfo, StreamState, announces_of
from exporter.pleg.facts import (
    Discarded,
    ProfileChosen,
    StreamAsked,
    StreamDown,
    StreamRefused,
    StreamUnproven,
    StreamUp,
)
from exporter.pleg.profiles import PROFILES, Profile, StreamKind, profile_of
from exporter.settings.config import EventStream

if TYPE_CHECKING:
    from exporter.kubelet.poller import KubeletPoller

_log = structlog.get_logger()

# These get no lease, which would end their subscription every minute. A fragile runtime can crash
# when a client disconnects. One with a single channel sends its next event to the client that has
# left, where it is lost.
_UNLEASED: Final = (StreamKind.FRAGILE, StreamKind.EXCLUSIVE)


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
        self._retrying = Retrying(shared.answered)
        self._numbers = itertools.count()
        self._met = False

    async def run(self) -> None:
        """Subscribe until cancelled. ConfigError if the first answer shows no CRI v1."""
        while True:
            tried_at = time.monotonic()
            if self._shared.node.stream not in SLOW:
                self._shared.node.stream = StreamState.CONNECTING
            ending = await self._attempt()
            self._conclude(ending)
            pause = self._retrying.pause(ending, tried_at)
            self._shared.node.stream_retry_wall = time.time() + pause
            await self._retrying.rest(ending, tried_at, pause, self._arbiter)

    async def _attempt(self) -> Ending:
        try:
            client = await self._shared.endpoint.separate()
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
            self._tell,
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

    def _tell(self, fact: StreamUnproven | Discarded) -> None:
        if isinstance(fact, Discarded):
            # At least one: how many the filter dropped is not known here.
            self._shared.node.count_discard()
        self._shared.chronicle.take(fact)

    def _up(self, lease: float) -> None:
        node = self._shared.node
        node.connections += 1
        node.stream, node.stream_note = StreamState.STREAMING, ""
        node.stream_reason, node.stream_retry_wall = "", 0.0
        node.announces = Announces.ON
        _log.info("subscribed to the event stream", lease_seconds=lease, **self._runtime())
        self._retrying.subscribed()
        self._relist_soon()

    def _conclude(self, ending: Ending) -> None:
        node = self._shared.node
        if self._retrying.has_no_stream(ending):
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

    def _runtime(self) -> dict[str, str]:
        runtime = self._shared.node.runtime
        return {"runtime": f"{runtime.name} {runtime.version}"} if runtime else {}


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
