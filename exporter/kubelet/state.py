"""The kubelet's gate EventedPLEG: its last reading, how long that is valid, the consequences.

Plain state; callers pass the time. It answers: is the gate on, does the node's configuration match,
and does the kubelet still use its stream. Blind spot: of a version that the table of generations
does not know, whether it has given the stream up.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from exporter.model.labels import Announces, Configuration, Gate, KubeletStream, Problem, Reliance
from exporter.runtimes.kubelets import GENERATIONS, MOST_ERRORS, Generation, generation_of
from exporter.runtimes.runtime import parse_version

_PERIODS_BELIEVED: Final = 3
_READING_SECONDS: Final = 10.0


_CONFIGURATIONS: Final = {
    (Gate.ON, Announces.ON): Configuration.BOTH_ON,
    (Gate.OFF, Announces.OFF): Configuration.BOTH_OFF,
    (Gate.ON, Announces.OFF): Configuration.GATE_ONLY,
    (Gate.OFF, Announces.ON): Configuration.RUNTIME_ONLY,
}
MEANINGS: Final = {
    Configuration.BOTH_ON: "the kubelet asks for events, and the runtime announces them",
    Configuration.BOTH_OFF: "neither does the kubelet ask for events nor the runtime announce them",
    Configuration.GATE_ONLY: "half configured: the kubelet asks for events that the runtime does"
    " not announce",
    Configuration.RUNTIME_ONLY: "the runtime announces events, and the kubelet does not ask for"
    " them",
    Configuration.UNKNOWN: "not known: the gate, or whether the runtime announces",
}
_GATES: Final = {
    Gate.ON: "its gate EventedPLEG is on",
    Gate.OFF: "its gate EventedPLEG is off",
    Gate.UNLISTED: "it does not list the gate EventedPLEG",
}


def configuration_of(gate: Gate, announces: Announces) -> Configuration:
    """How gate and events match; unknown unless both are known."""
    return _CONFIGURATIONS.get((gate, announces), Configuration.UNKNOWN)


@dataclass(frozen=True, slots=True)
class KubeletReading:
    """One page of the kubelet. None: not on the page.

    `requested`: monotonic. `discards`: lifecycle events for which its channel had no room.
    `stream_errors`, `connections`, `events`: counts for its stream.
    """

    requested: float
    gate: Gate
    version: str = ""
    discards: float | None = None
    stream_errors: float | None = None
    events: float | None = None
    connections: float | None = None

    @property
    def generation(self) -> Generation | None:
        """What is known of kubelets of this version."""
        return generation_of(self.version)

    @property
    def gave_up(self) -> bool:
        """Whether it uses events no more, until it is restarted."""
        known, errors = self.generation is not None, self.stream_errors or 0.0
        return self.gate is Gate.ON and known and errors >= MOST_ERRORS

    @property
    def stream(self) -> KubeletStream:
        """What its counters show of its subscription."""
        if self.gate is not Gate.ON:
            return KubeletStream.NOT_WANTED if self.gate is Gate.OFF else KubeletStream.UNKNOWN
        if self.stream_errors is None or self.connections is None:
            return KubeletStream.UNKNOWN
        if self.gave_up:
            return KubeletStream.GAVE_UP
        # Each attempt but the current one ended with an error, and one that was not served is an
        # error only: more served than failed means that the current one is served.
        served = self.connections > self.stream_errors
        # A known one tries again at once, so by the next reading it has succeeded or given up.
        if served or (self.generation is not None and self.connections):
            return KubeletStream.CONNECTED
        return KubeletStream.RETRYING

    @property
    def reliance(self) -> Reliance:
        """What a lost event costs it; one newer than the table does as the newest in it."""
        if self.gate is not Gate.ON:
            return Reliance.NONE
        newest, known = GENERATIONS[-1], self.generation
        version = parse_version(self.version) or (0, 0, 0)
        if known is None and version >= (1, newest.minors.stop, 0):
            known = newest
        return Reliance.REPLACES if known is None or known.trusts else Reliance.HINTS

    def describe(self) -> str:
        """The gate and related values, in readable form."""
        parts = [f"kubelet {self.version}" if self.version else "the kubelet", _GATES[self.gate]]
        if self.events is not None and self.gate is Gate.ON:
            parts.append(f"{self.events:.0f} events received")
        if self.stream_errors:
            text = f"{self.stream_errors:.0f} stream errors"
            parts.append(f"{text}: it has given the stream up" if self.gave_up else text)
        if self.discards is not None:
            parts.append(f"{self.discards:.0f} lifecycle events discarded")
        if self.gate is Gate.ON and self.generation is not None:
            parts.append(f"it acts on {self.generation.acts_on.value}")
        return ", ".join(parts)


@dataclass(slots=True)
class Kubelet:
    """What is known of the node's kubelet.

    `period`: seconds between two readings. `note`: why the last one failed; empty if it succeeded.
    """

    period: float
    reading: KubeletReading | None = None
    last_seen_wall: float = 0.0
    errors: Counter[Problem] = field(default_factory=Counter)
    note: str = ""

    def believed(self, now: float) -> KubeletReading | None:
        """The last reading, unless it is too old."""
        reading, longest = self.reading, _PERIODS_BELIEVED * self.period + _READING_SECONDS
        return None if reading is None or now - reading.requested > longest else reading

    def stream(self, now: float) -> KubeletStream:
        """Its subscription."""
        reading = self.believed(now)
        return reading.stream if reading is not None else KubeletStream.UNKNOWN

    def record(self, reading: KubeletReading, wall: float) -> None:
        """Record a reading; `wall`: unix time."""
        self.reading, self.last_seen_wall, self.note = reading, wall, ""

    def failed(self, problem: Problem, note: str) -> None:
        """Record a failed reading."""
        self.errors[problem] += 1
        self.note = note

    def reliance(self, now: float) -> Reliance:
        """What a lost event costs it."""
        reading = self.believed(now)
        return reading.reliance if reading is not None else Reliance.UNKNOWN

    def generation(self, now: float) -> Generation | None:
        """What is known of its version, if it is known to use events."""
        reading = self.believed(now)
        return reading.generation if reading is not None and reading.gate is Gate.ON else None

    def gate(self, now: float) -> Gate:
        """The gate."""
        reading = self.believed(now)
        return reading.gate if reading is not None else Gate.UNKNOWN

    def describe(self, now: float) -> str:
        """What is known, or why it is not, in readable form."""
        reading = self.believed(now)
        if reading is None:
            return self.note or "it has not answered yet"
        return f"{reading.describe()}; {self.note}" if self.note else reading.describe()
