"""Finds the flaws of an event.

Only OUT_OF_ORDER depends on earlier events: the ledger finds it. Blind spots: exit codes and
reasons, and the statuses of other containers.
"""

from typing import Final

from exporter.cri import runtime_v1_pb2 as pb
from exporter.model.events import EventType, Flawed, ListedState, ObjectKind
from exporter.model.labels import Flaw

_NO_POD: Final = (Flaw.NO_POD,)
_NO_STATUS: Final = (Flaw.NO_STATUS,)
_WRONG_STATE: Final = (Flaw.WRONG_STATE,)
_WRONG_TIME: Final = (Flaw.WRONG_TIME,)
EMPTY_STATUS: Final = (Flaw.EMPTY_STATUS,)
_STARTED: Final = EventType.STARTED
_STOPPED: Final = EventType.STOPPED
_DELETED: Final = EventType.DELETED
_CONTAINER: Final = ObjectKind.CONTAINER
_CREATED: Final = pb.CONTAINER_CREATED
_EXITED: Final = pb.CONTAINER_EXITED
# containerd stamps a start after the start has returned. Measured: of 240 short lives, twelve at
# once, 172 ended up to 0.8 s before that; on a busier machine, 3 of 400 by more than 1 s.
_TOLERATED_NS: Final = 5 * 10**9


def flaws_of(
    event: EventType,
    kind: ObjectKind | None,
    uid: str,
    own: pb.ContainerStatus | None,
    made_ns: int,
) -> tuple[Flaw, ...]:
    """The flaws of an event by itself, except EMPTY_STATUS; this runs for each event.

    `uid`: of the pod that the event names. `own`: the container's own status in the event; None for
    a sandbox, may be None for DELETED. `made_ns`: when the event was made, 0 if unknown.
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


def flawed(
    flaws: tuple[Flaw, ...],
    statuses: int,
    own: pb.ContainerStatus | None,
    states: dict[int, ListedState],
) -> Flawed:
    """What an event with these flaws says about its own container; `states` by their numbers."""
    if own is None:
        return Flawed(flaws, statuses)
    state = states.get(own.state, ListedState.UNKNOWN)
    return Flawed(flaws, statuses, state, own.started_at, own.finished_at)
