"""Whether to subscribe to a runtime's events, decided here alone, for `serve` and `check`.

Law: a second subscriber of an exclusive stream takes events from the kubelet, and one that leaves a
fragile one may crash the runtime, so only an operator may demand either.
"""

from dataclasses import dataclass
from typing import Final

from exporter.model.labels import StreamKind, StreamState
from exporter.pleg.profiles import Profile
from exporter.settings.config import EventStream

_UPGRADE: Final = "upgrade the runtime"
_REMEDIES: Final = {
    StreamKind.NONE: _UPGRADE,
    StreamKind.FRAGILE: f"{_UPGRADE}, or take that risk with --event-stream=always",
    StreamKind.EXCLUSIVE: f"{_UPGRADE}, or, where neither the kubelet nor anything else uses its"
    " events, give --event-stream=always",
}


@dataclass(frozen=True, slots=True)
class Objection:
    """Why not to subscribe, and what to do about it: nothing if that is the operator's will."""

    state: StreamState
    why: str
    remedy: str = ""

    @property
    def note(self) -> str:
        """Both, in one sentence."""
        return "; ".join(filter(None, (self.why, self.remedy)))


def objection_to(profile: Profile, wish: EventStream) -> Objection | None:
    """Why not to subscribe to such a runtime; None if there is no objection."""
    if wish is EventStream.NEVER:
        return Objection(StreamState.REFUSED, "--event-stream=never: relist only")
    if wish is EventStream.ALWAYS or profile.stream is StreamKind.BROADCAST:
        return None
    none = profile.stream is StreamKind.NONE
    state = StreamState.UNSUPPORTED if none else StreamState.REFUSED
    return Objection(state, f"{profile.why}: relist only", _REMEDIES[profile.stream])
