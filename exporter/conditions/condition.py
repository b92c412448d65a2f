"""What a condition is, and the data by which conditions are judged."""

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
    """A condition of the Node object; the value is its type. Status True means a problem."""

    EVENTS_INCOMPLETE = "ContainerEventsIncomplete"
    STATE_STALE = "ContainerRuntimeStateStale"

    @property
    def path(self) -> str:
        """The path of its page."""
        return f"/condition/{self.value}"


class Severity(Enum):
    """The severity of an alert; the last two depend on what the node's kubelet does with events.

    `values.yaml` sets them. `LOSSES`: `losses.relied_on` where a kubelet relies on events alone, or
    takes them as hints and most exits are lost; else `losses.otherwise`. `GATED`: `relied_on`
    wherever the kubelet's gate is on.
    """

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"
    LOSSES = "losses"
    GATED = "gated"


class Reliance(Enum):
    """Nodes that get an alert: all; those with the gate on; those where events replace relists."""

    ANY = 0
    GATE_ON = 1
    ALONE = 2


class Weighs(Enum):
    """What a condition that held on some nodes means to the report about their fleet.

    `SAID`: it is reported, and decides nothing by itself. `GATED`: NO-GO if it held on one node
    with the gate on. `TRUSTED`: NO-GO if it held on more than a few nodes and the kubelets would
    take events in the place of relists.
    """

    SAID = "said"
    GATED = "gated"
    TRUSTED = "trusted"


@dataclass(frozen=True, slots=True)
class Present:
    """The present state of the node."""

    # Whether the runtime answers; None before its first answer.
    answers: bool | None
    stream: StreamState
    # Whether each event goes to one subscriber only.
    exclusive: bool = False
    # How many contradictions of each kind stand.
    standing: Mapping[Verdict, int] = field(default_factory=lambda: MappingProxyType({}))
    # Proven events that are neither announced nor counted as missed yet.
    unresolved: int = 0
    # Why the last relist failed.
    relist_reason: str = ""
    relist_seconds: float = 0.0
    # By how many seconds the next relist is overdue.
    overdue: float = 0.0
    # Unix times of the last answer and of the next attempt to subscribe; 0 if there is none.
    answered_wall: float = 0.0
    retry_wall: float = 0.0
    stream_reason: str = ""
    # The size of the larger list, and whether that is nearly too much for a message (`cri.limits`).
    list_bytes: int = 0
    nearly_unsendable: bool = False
    # Some of the listed items that have a text that is not UTF-8, in words.
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
    """No sentence, for a condition whose headline says it all."""
    return iter(())


@dataclass(frozen=True, slots=True)
class Condition:
    """One row of the catalogue: everything that pages, alerts, report and docs say about it."""

    # The value of the label `condition`.
    name: str
    headline: str
    mood: Mood
    # Whether it holds, by counts of the window or by the present state.
    holds: Holds
    # The sentences below the headline.
    sentences: Said = nothing
    # `holds` in words, for the docs, where the headline does not say it.
    when: str = ""
    # Seconds, if it is about the present state: it also holds if that state lasted longer than this
    # in the window. Its alert waits for as long, and for the minutes for which a scrape counts.
    lasting: float | None = None
    # The alert, without `ShadowPleg`; conditions may share one, and its runbook.
    alert: str = ""
    # Why there is no alert.
    silent: str = ""
    # What to do, in a sentence; `relied`: what to do first where the gate EventedPLEG is on.
    todo: str = ""
    relied: str = ""
    severity: Severity = Severity.WARNING
    # Which nodes get the alert.
    reliance: Reliance = Reliance.ANY
    # The node condition that is True while this holds, with the first sentence as its message; and
    # the node conditions that are Unknown meanwhile.
    node_condition: NodeCondition | None = None
    unknown: tuple[NodeCondition, ...] = ()
    # What it means to the fleet's report, None if nothing; `stops`: why a fleet is not GO.
    weighs: Weighs | None = None
    stops: str = ""
    # Conditions whose alerts inhibit this one's.
    part_of: tuple[str, ...] = ()
