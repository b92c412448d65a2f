"""Flaws of events that came: what is wrong, how it is found, and what a kubelet makes of it.

Up to Kubernetes 1.36 a kubelet takes the pod's state from the event (`pkg/kubelet/pleg/evented.go`
of k/k), so one that lies is worse than one that is lost. Only OUT_OF_ORDER needs what came before:
the ledger finds it. Blind spots: exit codes and reasons, and statuses of other containers.
"""

from typing import Final, NamedTuple, Protocol

from exporter.model.events import EventType, Flawed, ListedState, ObjectKind
from exporter.model.labels import Flaw


class Meaning(NamedTuple):
    """`what` is wrong with the event, and what a kubelet up to 1.36 does: it `does` that."""

    what: str
    does: str


MEANINGS: Final = {
    Flaw.OUT_OF_ORDER: Meaning(
        "came after a later step of its container, over the same subscription",
        "takes the older state for the newer one",
    ),
    Flaw.NO_POD: Meaning("names no pod", "ignores it"),
    Flaw.NO_STATUS: Meaning(
        "has no status of the container itself", "takes the pod for one without that container"
    ),
    Flaw.EMPTY_STATUS: Meaning("has a container status without an id", "may panic"),
    Flaw.WRONG_STATE: Meaning(
        "shows its container in another state: created where it started, or not exited where it"
        " stopped",
        "takes the wrong state",
    ),
    Flaw.WRONG_TIME: Meaning(
        "says that the container ended over five seconds before it started, or after the event was"
        " made",
        "puts the wrong time into the pod's status",
    ),
}

_NO_POD: Final = (Flaw.NO_POD,)
_NO_STATUS: Final = (Flaw.NO_STATUS,)
_WRONG_STATE: Final = (Flaw.WRONG_STATE,)
_WRONG_TIME: Final = (Flaw.WRONG_TIME,)
EMPTY_STATUS: Final = (Flaw.EMPTY_STATUS,)
_STARTED: Final = EventType.STARTED
_STOPPED: Final = EventType.STOPPED
_DELETED: Final = EventType.DELETED
_CONTAINER: Final = ObjectKind.CONTAINER
_CREATED: Final = 0
_EXITED: Final = 2
# containerd stamps a start once it has returned. Of 240 short lives, twelve at once, 172 ended
# before that, by up to 0.8 s; on a busier machine, three of 400 by more than a second (measured).
_TOLERATED_NS: Final = 5 * 10**9


class OwnStatus(Protocol):
    """A container's status on the wire, as far as the rules read it."""

    @property
    def state(self) -> int:
        """A number of the CRI's ContainerState."""

    @property
    def started_at(self) -> int:
        """Nanoseconds; 0 if it never was."""

    @property
    def finished_at(self) -> int:
        """As above."""


def flaws_of(
    event: EventType, kind: ObjectKind | None, uid: str, own: OwnStatus | None, made_ns: int
) -> tuple[Flaw, ...]:
    """What is wrong with an event by itself, but for EMPTY_STATUS; it runs for each event.

    `uid`: of the pod that it names. `own`: the container's own status in it, which a sandbox has
    not and DELETED does not owe. `made_ns`: when it was made, 0 if unknown.
    """
    flaws: tuple[Flaw, ...] = () if uid else _NO_POD
    if event is _DELETED:
        return flaws
    if own is None:
        return flaws + _NO_STATUS if kind is _CONTAINER else flaws
    state = own.state
    if state != _EXITED:
        wrong = event is _STOPPED or (event is _STARTED and state == _CREATED)
        return flaws + _WRONG_STATE if wrong else flaws
    finished = own.finished_at - _TOLERATED_NS
    if finished > 0 and (finished + 2 * _TOLERATED_NS < own.started_at or 0 < made_ns < finished):
        flaws += _WRONG_TIME
    return flaws


def said(
    flaws: tuple[Flaw, ...], statuses: int, own: OwnStatus | None, states: dict[int, ListedState]
) -> Flawed:
    """What an event with these flaws says of its own container; `states` by number."""
    if own is None:
        return Flawed(flaws, statuses)
    state = states.get(own.state, ListedState.UNKNOWN)
    return Flawed(flaws, statuses, state, own.started_at, own.finished_at)
