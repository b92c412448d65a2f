"""The kubelet's gate EventedPLEG: its last reading, how long that is valid, what follows from it.

Here: plain state that is told the time, and its questions: is the gate on, does the node's
configuration fit together, is a stream that only one may have left to us. Not here: asking the
kubelet (`client`), nor when (`asking`). Blind spot: up to 1.36 a kubelet
that has given the stream up for good still says that its gate is on.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

# It is computed anew from the node's clock for each page: a second more or less is no restart.
_SAME_PROCESS: Final = 1.5
# Never asked more often than this, whatever the grace.
_CLOSEST: Final = 1.0
# An answer is trusted for less than the grace: what a kubelet that was restarted since has taken
# from us can then not have been judged when we leave.
_SHARE_OF_GRACE: Final = 0.8
_LONGEST_TRUST: Final = 4.0
_PERIODS_BELIEVED: Final = 3
_ANSWER: Final = 10.0
# So many stream errors end the use of events, up to Kubernetes 1.36.
_GIVES_UP: Final = 5


class Gate(Enum):
    """The kubelet's gate EventedPLEG. `UNLISTED`: this kubelet has no such gate to tell of."""

    ON = "on"
    OFF = "off"
    UNLISTED = "unlisted"
    UNKNOWN = "unknown"


class Announces(Enum):
    """Whether the runtime announces events."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class Configuration(Enum):
    """How the two go together."""

    BOTH_ON = "both_on"
    BOTH_OFF = "both_off"
    GATE_ONLY = "gate_only"
    RUNTIME_ONLY = "runtime_only"
    UNKNOWN = "unknown"


class Problem(Enum):
    """Why a reading failed."""

    ABSENT = "absent"
    TIMEOUT = "timeout"
    TLS = "tls"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    STATUS = "status"
    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    CREDENTIALS = "credentials"


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
    " them: ready for Evented PLEG",
    Configuration.UNKNOWN: "not known: the gate, or whether the runtime announces",
}
_GATES: Final = {
    Gate.ON: "its gate EventedPLEG is on",
    Gate.OFF: "its gate EventedPLEG is off",
    Gate.UNLISTED: "it does not list the gate EventedPLEG",
}


def configuration_of(gate: Gate, announces: Announces) -> Configuration:
    """How they go together; unknown unless both are known."""
    return _CONFIGURATIONS.get((gate, announces), Configuration.UNKNOWN)


@dataclass(frozen=True, slots=True)
class KubeletReading:
    """One page of the kubelet. None: not on the page.

    `asked`: monotonic time at which it was asked for, so the answer is no older. `started`: unix
    time at which the kubelet's process began. `discards`: lifecycle events that its channel had no
    room for. `relisted`: unix time of its last relist. `stream_errors`, `events`: of its stream.
    """

    asked: float
    gate: Gate
    started: float | None = None
    version: str = ""
    discards: float | None = None
    relisted: float | None = None
    stream_errors: float | None = None
    events: float | None = None

    def describe(self) -> str:
        """The gate, and what there is beside it, for a person."""
        parts = [f"kubelet {self.version}" if self.version else "the kubelet", _GATES[self.gate]]
        if self.events is not None and self.gate is Gate.ON:
            parts.append(f"{self.events:.0f} events received")
        if self.stream_errors:
            text = f"{self.stream_errors:.0f} stream errors"
            given_up = self.gate is Gate.ON and self.stream_errors >= _GIVES_UP
            parts.append(f"{text} (up to 1.36 it has given up)" if given_up else text)
        if self.discards is not None:
            parts.append(f"{self.discards:.0f} lifecycle events discarded")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class PollingTerms:
    """Seconds. `period`: between two readings. `believed`: how long an answer counts as known.

    `trusted`: how long a stream that only one may have is taken on the strength of it; 0: never.
    """

    period: float
    believed: float
    trusted: float

    @property
    def urgent_period(self) -> float:
        """Between two readings while such a stream is ours."""
        return min(self.period, self.trusted / 2) if self.trusted else self.period


def terms_of(period: float, grace: float) -> PollingTerms:
    """What follows from the settings; a grace too short to notice anything in is no trust."""
    trusted = min(_LONGEST_TRUST, grace * _SHARE_OF_GRACE)
    believed = _PERIODS_BELIEVED * period + _ANSWER
    return PollingTerms(period, believed, trusted if trusted >= 2 * _CLOSEST else 0.0)


@dataclass(slots=True)
class Kubelet:
    """What is known of the node's kubelet.

    `watched`: a stream that only one may have depends on the answers. `note`: why the last reading
    failed; empty where it did not. `failures`: in a row. `doubted`: it may have been restarted
    since it answered.
    """

    terms: PollingTerms
    said: KubeletReading | None = None
    last_seen_wall: float = 0.0
    errors: Counter[Problem] = field(default_factory=Counter)
    note: str = ""
    failures: int = 0
    watched: bool = False
    doubted: bool = False

    @property
    def asked(self) -> bool:
        """Whether a reading is over, well or not."""
        return self.said is not None or self.failures > 0

    def record(self, said: KubeletReading, wall: float) -> None:
        """It answered; `wall`: unix time. Another process than before is asked once more."""
        before, self.said = self.said, said
        self.doubted = before is not None and not _same_process(before, said)
        self.last_seen_wall = wall
        self.note, self.failures = "", 0

    def failed(self, problem: Problem, note: str) -> None:
        """A reading failed. Nobody at the door: that is how a restart looks."""
        self.errors[problem] += 1
        self.note = note
        self.failures += 1
        self.doubted = self.doubted or problem is Problem.ABSENT

    def gate(self, now: float) -> Gate:
        """The gate, as long as that is believed."""
        if self.said is None or now - self.said.asked > self.terms.believed:
            return Gate.UNKNOWN
        return self.said.gate

    def trusted_until(self) -> float:
        """The monotonic time up to which nothing but another answer changes `objection`."""
        return self.said.asked + self.terms.trusted if self.said else -math.inf

    def objection(self, now: float) -> str:
        """Why a stream that only one may have is not ours; empty where the kubelet leaves it."""
        if not self.terms.trusted:
            least = 2 * _CLOSEST / _SHARE_OF_GRACE
            return f"--missed-grace is too short to see a kubelet come: give at least {least:g}s"
        if self.said is None:
            return "whether the kubelet wants them is not known"
        if self.said.gate is not Gate.OFF:
            return f"of the kubelet, {_GATES[self.said.gate]}"
        return self._doubt(self.said, now)

    def _doubt(self, said: KubeletReading, now: float) -> str:
        """Why an answer that leaves the stream to us is not enough; empty where it is."""
        if said.started is None:
            return "the kubelet does not say when it started"
        if self.doubted:
            return "the kubelet may have been restarted"
        if now > self.trusted_until():
            return f"the kubelet has not answered for {self.terms.trusted:g}s"
        return ""

    def pause(self) -> float:
        """Seconds between readings: few while a stream depends on them, more where they fail."""
        if not self.watched or (self.said is not None and self.said.gate is not Gate.OFF):
            return self.terms.period
        # Beyond that the power no longer matters; keep it small.
        return min(self.terms.period, self.terms.urgent_period * 2.0 ** min(self.failures, 32))

    def describe(self, now: float) -> str:
        """What is known, or why it is not, for a person."""
        if self.said is None or self.gate(now) is Gate.UNKNOWN:
            return self.note or "it has not answered yet"
        return f"{self.said.describe()}; {self.note}" if self.note else self.said.describe()


def _same_process(before: KubeletReading, now: KubeletReading) -> bool:
    if before.started is None or now.started is None:
        return before.started is now.started
    return abs(before.started - now.started) <= _SAME_PROCESS
