"""What a condition is, and what conditions are judged by."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from exporter.conditions.account import Account
from exporter.model.findings import Verdict
from exporter.model.labels import BY_CHOICE, KernelWitness, StreamState


class Mood(Enum):
    """The tone of a condition."""

    GOOD = "good"
    UNSURE = "unsure"
    BAD = "bad"


class NodeCondition(Enum):
    """A condition of the Node object; the value is its type. True: a problem."""

    EVENTS_INCOMPLETE = "ContainerEventsIncomplete"
    STATE_STALE = "ContainerRuntimeStateStale"

    @property
    def path(self) -> str:
        """Where it is served."""
        return f"/condition/{self.value}"


class Severity(Enum):
    """How bad it is, by what the node's kubelet does with events; `values.yaml` has the words.

    `LOSSES`: that of `losses.relied_on` where a kubelet relies on events alone, or takes them as
    hints and most exits are lost, else that of `losses.otherwise`. `GATED`: `relied_on` wherever
    the kubelet's gate is on.
    """

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"
    LOSSES = "losses"
    GATED = "gated"


class Reliance(Enum):
    """Where an alert is owed: on every node, where the gate is on, where events replace relists."""

    ANY = 0
    GATE_ON = 1
    ALONE = 2


class Weighs(Enum):
    """What a condition that was found on nodes means to the report about their fleet.

    `SAID`: which nodes, for how long, and what to do; counts decide, or nothing does. `GATED`: one
    node whose kubelet's gate is on is a no-go. `TRUSTED`: so are more than a few of those whose
    kubelets would take events in the place of relists.
    """

    SAID = "said"
    GATED = "gated"
    TRUSTED = "trusted"


@dataclass(frozen=True, slots=True)
class Present:
    """How the node is now."""

    # Whether the runtime answers; None before its first answer.
    answers: bool | None
    stream: StreamState
    # The stream has room for one subscriber.
    exclusive: bool = False
    # Of how many containers lists or kubelet are wrong.
    standing: Mapping[Verdict, int] = field(default_factory=lambda: MappingProxyType({}))
    # Events that are neither announced nor missed yet.
    unresolved: int = 0
    # Why the last relist failed.
    relist_reason: str = ""
    relist_seconds: float = 0.0
    # For how many seconds the next one should have been done.
    overdue: float = 0.0
    # Unix times, 0 if there is none.
    answered_wall: float = 0.0
    retry_wall: float = 0.0
    stream_reason: str = ""
    # The size of the larger list; and whether that is much for a message, as `cri.limits` has it.
    list_bytes: int = 0
    nearly_unsendable: bool = False
    # Some of what is listed with a text that is no UTF-8.
    garbled: tuple[str, ...] = ()
    kernel: KernelWitness = KernelWitness.OFF
    kernel_note: str = ""

    @property
    def wanted(self) -> bool:
        """Whether the subscription is up, or should be."""
        return self.stream not in BY_CHOICE

    @property
    def streaming(self) -> bool:
        """Whether the subscription is up."""
        return self.stream is StreamState.STREAMING


Holds = Callable[[Account, Present], bool]
Said = Callable[[Account, Present], Iterator[str]]


def nothing(_account: Account, _present: Present) -> Iterator[str]:
    """For a condition whose headline says it all."""
    return iter(())


@dataclass(frozen=True, slots=True)
class Condition:
    """One row of the catalogue: all that any surface says of it."""

    # The value of the label `condition`.
    name: str
    headline: str
    mood: Mood
    # By counts of the window, or by what is so now.
    holds: Holds
    # What is said below the headline.
    sentences: Said = nothing
    # `holds` in words, for the docs.
    when: str = ""
    # Seconds, of what is so now: it goes on holding while it was so for longer in the window. Its
    # alert waits for as long, and for the minutes for which a scrape counts.
    lasting: float | None = None
    # Whose runbook says what to do, without `ShadowPleg`; conditions with one alert share it.
    alert: str = ""
    # Why there is none.
    silent: str = ""
    # What to do, in a sentence; and what first where the kubelet's gate EventedPLEG is on.
    todo: str = ""
    relied: str = ""
    severity: Severity = Severity.WARNING
    # Where the alert is owed.
    reliance: Reliance = Reliance.ANY
    # True while this holds, with the first sentence as its message; and those that cannot be judged
    # meanwhile.
    node_condition: NodeCondition | None = None
    unknown: tuple[NodeCondition, ...] = ()
    # What it means to the fleet's report; None: that does not read it. And why a fleet is no GO.
    weighs: Weighs | None = None
    stops: str = ""
    # Conditions whose alerts hold this one's back.
    part_of: tuple[str, ...] = ()
