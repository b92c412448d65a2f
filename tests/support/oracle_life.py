"""What the oracle remembers of one container. What has not happened is infinitely late."""

from dataclasses import dataclass, field
from math import inf

from exporter.model.events import Lifecycle, ListedState, ObjectKind
from exporter.model.findings import Verdict, Why

CHANGED, STARTED, DIED, REMOVED = Lifecycle
CREATED, RUNNING, EXITED, UNKNOWN = ListedState
# The last step that a list with this state shows done; UNKNOWN may hide any but the removal.
DONE = {CREATED: CHANGED, RUNNING: STARTED, EXITED: DIED, None: REMOVED}


@dataclass(slots=True)
class Denial:
    """What lists in a row deny since when; once two of them count, it stands."""

    since: float = inf
    lists: int = 0

    @property
    def stands(self) -> bool:
        return self.lists >= 2

    def by(self, requested: float, since: float, patience: float = 0.0) -> bool:
        """By that list, too: whether it stands from now on. `since`: when it began, if it did."""
        self.since = since if self.since == inf else self.since
        self.lists += requested > self.since + patience
        return self.lists == 2 and requested > self.since + patience


@dataclass(slots=True)
class Step:
    """One event of one container: what was said of it, what proves it, what was found.

    `said`: when first; `stamp`: by which subscription, made when; `unheard`: why nothing before it
    may have been. `proven`: when the grace began; `ahead`: only the kernel proves it, `witnessed`:
    it did once; `why`: what may explain a miss. `denial`: lists against it.
    """

    said: float = inf
    stamp: tuple[int, int] = (0, 0)
    backlog: bool = False
    unheard: int = 0
    proven: float = inf
    ahead: bool = False
    witnessed: bool = False
    why: int = 0
    found: Verdict | None = None
    cause: Why | None = None
    denial: Denial = field(default_factory=Denial)

    @property
    def waits(self) -> bool:
        """Whether it is proven, and neither announced nor judged."""
        return self.proven < inf and self.said == inf and not self.found

    def take_back(self) -> None:
        """What only the kernel proved was none."""
        if self.ahead and self.waits:
            self.proven, self.witnessed = inf, False


@dataclass(slots=True)
class Life:
    """One container or sandbox.

    `early`: named before observation; `floor`: its last step from then; `at_first`: its state in
    the first list. `over`: gone and judged.
    """

    id: str
    early: bool = False
    kind: ObjectKind | None = None
    home: str = ""
    uid: str = ""
    listed: bool = False
    elsewhere: bool = False
    state: ListedState | None = None
    at_first: ListedState | None = None
    floor: int = -1
    ran: bool | None = None
    lasted: bool = False
    deleted_below: bool = False
    exit_listed: bool = False
    gone_running: bool = False
    left_ready: bool = False
    over: bool = False
    steps: tuple[Step, ...] = field(default_factory=lambda: tuple(Step() for _ in Lifecycle))

    @property
    def may_have_failed(self) -> bool:
        """Whether no list and no event shows that the sandbox was ever set up."""
        return self.ran is None and self.steps[CHANGED].said == inf

    def behind(self, event: Lifecycle) -> bool:
        """Whether the lists may yet show that step."""
        return self.state is UNKNOWN or DONE[self.state] < event

    def due(self, event: Lifecycle) -> float:
        """When it had to be announced, at the earliest: after what comes before it."""
        before = [step.said for step in self.steps[:event] if step.said < inf]
        return max([self.steps[event].proven, *before])
