"""What a condition is, and what conditions are judged by."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from exporter.conditions.account import Account
from exporter.model.findings import Verdict
from exporter.model.labels import KernelWitness, StreamState


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
    """How the node is now. `answers`: whether the runtime does; None before its first answer.

    `wanted`: the subscription is up, or should be. `exclusive`: its stream has room for one
    subscriber. `standing`: of how many containers lists or kubelet are wrong, by verdict.
    `unresolved`: events that are neither announced nor missed yet. `relist_reason`: why the last
    relist failed; `overdue`: for how many seconds the next one should have been done.
    `answered_wall`, `retry_wall`: unix times, 0 if there is none. `list_bytes`: the larger list;
    `nearly_unsendable`: as `cri.limits` has it. `garbled`: some of what is listed with a text that
    is no UTF-8.
    """

    answers: bool | None
    stream: StreamState
    wanted: bool
    exclusive: bool = False
    standing: Mapping[Verdict, int] = field(default_factory=lambda: MappingProxyType({}))
    unresolved: int = 0
    relist_reason: str = ""
    relist_seconds: float = 0.0
    relist_period: float = 0.0
    overdue: float = 0.0
    answered_wall: float = 0.0
    stream_reason: str = ""
    retry_wall: float = 0.0
    list_bytes: int = 0
    nearly_unsendable: bool = False
    garbled: tuple[str, ...] = ()
    kernel: KernelWitness = KernelWitness.OFF
    kernel_note: str = ""

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
    """One row of the catalogue: all that any surface says of it.

    `name`: the value of the label `condition`. `holds`: by counts of the window, or by what is so
    now; `when`: the same in words, for the docs. `lasting`: for the latter, seconds; it goes on
    holding while it was so for longer in the window; its alert waits for as long, and for the
    minutes for which a scrape counts. `sentences`:
    what is said below the headline.

    `alert`: whose runbook says what to do, without `ShadowPleg`; conditions with one alert share
    it. `silent`: why none is owed. `todo`: what to do, in a sentence; `relied`: what to do first
    where the kubelet's gate EventedPLEG is on. `reliance`: where the alert is owed.

    `node_condition`: the one that is True while this holds, with the first sentence as its message;
    `unknown`: those that cannot be judged meanwhile. `weighs`: what it means to the fleet's report;
    None: that does not read it. `stops`: the reason why a fleet is no GO by it. `part_of`:
    conditions whose alerts hold this one's back.
    """

    name: str
    headline: str
    mood: Mood
    holds: Holds
    sentences: Said = nothing
    when: str = ""
    lasting: float | None = None
    alert: str = ""
    silent: str = ""
    todo: str = ""
    relied: str = ""
    severity: Severity = Severity.WARNING
    reliance: Reliance = Reliance.ANY
    node_condition: NodeCondition | None = None
    unknown: tuple[NodeCondition, ...] = ()
    weighs: Weighs | None = None
    stops: str = ""
    part_of: tuple[str, ...] = ()
