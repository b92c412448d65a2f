"""The subscription: subscribe if allowed, hold it, and retry when it is lost.

States: connecting -> streaming -> backoff -> connecting ...; `disabled` when the runtime ends the
stream cleanly at once, `unsupported` when it has none, `refused` when subscribing could harm the
kubelet or `--event-stream=never` forbids it. These three are retried slowly, since an operator may
change them at any time, and at once if another runtime may answer. Never more than one attempt per
second at one socket. Blind spot: while nothing happens, a stream that works and one that hangs look
the same; only the relist shows the difference.
"""

import asyncio
import itertools
import time
from collections.abc import Callable
from pathlib import Path

from exporter.cri.client import UNAVAILABLE, CriClient, RuntimeVersion
from exporter.errors import ConfigError, CriError, CriUnimplementedError
from exporter.loops.context import LoopContext
from exporter.loops.intake import Intake
from exporter.loops.lease import ANSWER_TIMEOUT, LeasedStream
from exporter.loops.retrying import Ending, Retrying
from exporter.model import facts
from exporter.model.labels import BY_CHOICE, StreamState
from exporter.node.state import RuntimeInfo
from exporter.pleg.trust import SETTLES
from exporter.runtimes.known import profile_of
from exporter.runtimes.permission import Allowed, Refused, ended_at_once, subscription
from exporter.runtimes.runtime import Profile


class Streaming:
    """Maintains the subscription; `relist_soon` is called whenever it begins or ends."""

    def __init__(
        self, context: LoopContext, intake: Intake, relist_soon: Callable[[], None]
    ) -> None:
        self._context = context
        self._intake = intake
        self._relist_soon = relist_soon
        self._retrying = Retrying(context.endpoint, context.answered, context.recovered)
        self._numbers = itertools.count()
        self._stream = context.node.stream
        self._met = False

    async def run(self) -> None:
        """Subscribe until cancelled. ConfigError if the first answer shows no CRI v1."""
        await self._context.endpoint.awaited()
        while True:
            tried = time.monotonic(), self._context.endpoint.seen
            if self._stream.state not in BY_CHOICE:
                self._stream.state = StreamState.CONNECTING
            ending = await self._attempt()
            self._conclude(ending)
            pause = self._retrying.pause(ending, tried[0])
            self._context.node.stream_retry_wall = time.time() + pause
            await self._retrying.rest(ending, tried, pause)

    async def _attempt(self) -> Ending:
        try:
            client = self._context.endpoint.separate()
        except CriError as error:
            return _unreached(error)
        try:
            profile = self._introduce(await client.version(ANSWER_TIMEOUT))
            answer = subscription(profile, self._context.config.event_stream)
            if isinstance(answer, Refused):
                return Ending(answer.state, answer.note)
            return await self._watch(client, profile, answer)
        except CriUnimplementedError as error:
            if not self._met:
                raise ConfigError(_no_cri(client.socket, error)) from None
            return _unreached(error)
        except CriError as error:
            return _unreached(error)
        finally:
            await client.close()

    def _introduce(self, version: RuntimeVersion) -> Profile:
        self._met = True
        chosen = facts.ProfileChosen(time.monotonic(), version.name, version.version)
        self._context.chronicle.record(chosen)
        profile = profile_of(version.name, version.version)
        known = self._context.node.runtime
        found = RuntimeInfo(version.name, version.version, version.api_version, profile.stream)
        if found != known:
            self._context.endpoint.reconsider()
            self._context.node.runtime = found
        return profile

    async def _watch(self, client: CriClient, profile: Profile, allowed: Allowed) -> Ending:
        lease = self._context.config.stream_lease if allowed.renewed else 0.0
        asked, take = time.monotonic(), self._context.chronicle.record
        stream = LeasedStream(
            client, self._intake.offer, lease, self._numbers, self._report, self._served
        )
        # Recorded before any event: a runtime sends its first subscriber at once what it kept.
        take(facts.StreamAsked(asked))
        try:
            held = await stream.open()
            if held.reader.done() and not stream.brought:
                end = held.reader.result()
                refused = ended_at_once(end.reason, end.note, profile)
                return Ending(refused.state, refused.note, end.reason)
            take(facts.StreamUp(held.answered_at, asked))
            self._up(lease, allowed)
            end = await stream.hold(held)
            ended_at = min(time.monotonic(), stream.ended_at)
        finally:
            await stream.close()
        self._stream.ends[end.reason] += 1
        streamed = ended_at - held.answered_at
        return Ending(StreamState.BACKOFF, end.note, end.reason, streamed, ended_at=ended_at)

    def _served(self) -> None:
        """Relist `SETTLES` after the first event: later changes have to be announced."""
        asyncio.get_running_loop().call_later(SETTLES, self._relist_soon)

    def _report(self, fact: facts.StreamUnproven | facts.Discarded) -> None:
        if isinstance(fact, facts.Discarded):
            # Count one: how many events the filter dropped is not known here.
            self._context.node.count_discard()
        self._context.chronicle.record(fact)

    def _up(self, lease: float, allowed: Allowed) -> None:
        node = self._context.node
        node.connections += 1
        node.stream_retry_wall = 0.0
        note = "" if allowed.harmless else allowed.why
        self._stream.become(StreamState.STREAMING, note, lease_seconds=lease, **self._runtime())
        self._retrying.subscribed()
        self._relist_soon()

    def _conclude(self, ending: Ending) -> None:
        if self._retrying.has_no_stream(ending):
            self._context.chronicle.record(facts.StreamRefused(time.monotonic()))
        else:
            ended_at = min(time.monotonic(), ending.ended_at)
            self._context.chronicle.record(facts.StreamDown(ended_at))
            if ending.streamed:
                self._relist_soon()
        self._stream.become(ending.state, ending.note, ending.reason, **self._runtime())

    def _runtime(self) -> dict[str, str]:
        runtime = self._context.node.runtime
        return {"runtime": f"{runtime.name} {runtime.version}"} if runtime else {}


def _unreached(error: CriError) -> Ending:
    absent = error.reason == UNAVAILABLE
    return Ending(StreamState.BACKOFF, str(error), error.reason, absent=absent)


def _no_cri(socket: Path, error: CriError) -> str:
    return (
        f"--runtime-endpoint: unix://{socket} speaks gRPC but not CRI v1 ({error}):"
        " name the runtime's CRI socket, or enable its CRI plugin"
    )
