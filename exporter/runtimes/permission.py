"""Decides, for `serve` and `check` alike, whether to subscribe to a runtime's events.

Invariant: only an operator may demand a subscription that may do harm. A second subscriber of an
exclusive stream takes events from the kubelet; one that leaves a fragile runtime may crash it.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from exporter.model.labels import EOF, StreamKind, StreamState
from exporter.runtimes.runtime import Profile

_UPGRADE: Final = "upgrade the runtime"
_REMEDIES: Final = {
    StreamKind.NONE: _UPGRADE,
    StreamKind.FRAGILE: f"{_UPGRADE}, or take that risk with --event-stream=always",
    StreamKind.EXCLUSIVE: f"{_UPGRADE}, or, where neither the kubelet nor anything else uses its"
    " events, give --event-stream=always",
}


class EventStream(Enum):
    """When to subscribe to the runtime's events."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Allowed:
    """The exporter may subscribe. `harmless`: False if an operator demands it despite the profile.

    `renewed`: whether the subscription may be replaced from time to time. A fragile runtime can
    crash when a client disconnects; a runtime with a single channel sends its next event to the
    client that has left, so that it is lost.
    """

    why: str
    harmless: bool
    renewed: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """Why not to subscribe, and the remedy; none if that is the operator's will."""

    state: StreamState
    why: str
    remedy: str = ""

    @property
    def note(self) -> str:
        """Reason and remedy, in one sentence."""
        return "; ".join(filter(None, (self.why, self.remedy)))


def subscription(profile: Profile, wish: EventStream) -> Allowed | Refused:
    """Whether to subscribe to a runtime with this profile; `check` and the log show the text."""
    kind = profile.stream
    if wish is EventStream.NEVER:
        return Refused(StreamState.REFUSED, "--event-stream=never: relist only")
    if kind is StreamKind.BROADCAST:
        return Allowed(f"{profile.why}; safe", harmless=True, renewed=True)
    if wish is EventStream.ALWAYS:
        said = f"{profile.why}; subscribed because of --event-stream=always"
        return Allowed(said, harmless=False, renewed=kind is StreamKind.NONE)
    state = StreamState.UNSUPPORTED if kind is StreamKind.NONE else StreamState.REFUSED
    return Refused(state, f"{profile.why}: relist only", _REMEDIES[kind])


def ended_at_once(reason: str, note: str, profile: Profile) -> Refused:
    """What it says about the runtime that a stream ended so, right after the request."""
    if reason == EOF:
        why = "the runtime ends the stream at once: its events are switched off"
        return Refused(StreamState.DISABLED, why, profile.turn_on)
    if reason == "unimplemented":
        return Refused(StreamState.UNSUPPORTED, note, profile.turn_on)
    return Refused(StreamState.BACKOFF, note)
