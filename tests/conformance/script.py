"""A history without a breach: lives of every part, as subscribers hear them."""

from itertools import product
from typing import Any, Final

from conformance.history import LATER, MAIN, Act, Case, Connected, Heard, History, Shown
from conformance.parts import ALONE, LOTS, TOGETHER
from exporter.cri import runtime_v1_pb2 as pb
from exporter.model.events import Announcement, EventType, ObjectKind, Pod

_WALL: Final = 1_700_000_000_000_000_000
_SECOND: Final = 1_000_000_000
_STATES: Final = (pb.CONTAINER_CREATED, pb.CONTAINER_RUNNING, pb.CONTAINER_EXITED)
_CALLS: Final = ("CreateContainer", "StartContainer", "StopContainer", "RemoveContainer")
CREATED, STARTED, STOPPED, DELETED = EventType
_NEVER: Final = ("never-started", "large", "frozen", "leavers", "unsubscribed", "shared")
_NOTHING: Final = ("failed-create", "failed-network")
_STREAMS: Final = {"shared": (MAIN, "shared-0", "shared-1", LATER), "frozen": (MAIN, "frozen")}


class Script:
    """Writes it, row by row, each 10 ms after the one before."""

    def __init__(self) -> None:
        self.history = History("containerd", "2.1.9")
        self._now = 0.0
        self._statuses: dict[str, dict[str, pb.ContainerStatus]] = {}

    def written(self) -> History:
        """All parts."""
        rows = self.history.rows
        for name in (MAIN, *(each for streams in _STREAMS.values() for each in streams[1:])):
            rows.append(Connected(self._tick(), name, up=True))
        for part in ("plain", *ALONE, *TOGETHER, "restart-later"):
            self._part(part)
        rows.append(Act(self._tick(), 0.01, "RunPodSandbox", "failed-network", "UNKNOWN: no CNI"))
        rows.append(Connected(self._tick(), MAIN, up=False, why="unavailable"))
        self.history.cases["failed-network"] = Case("failed-network", "")
        for of in ("pod_status", "refused", "files"):
            rows.append(Shown(self._tick(), of, of, of, wrong=False))
        return self.history

    def _tick(self) -> float:
        self._now += 0.01
        return self._now

    def _part(self, part: str) -> None:
        rows, cases, pod = self.history.rows, self.history.cases, f"{part}-pod"
        cases[pod] = Case(part, pod)
        owed = (CREATED, DELETED) if part in _NEVER else tuple(EventType)
        case = Case(part, pod, (CREATED, STOPPED, DELETED) if part == "failed-start" else owed)
        lot = LOTS.get(part, (None,))[0]
        if lot and lot.code is not None:
            case = case._replace(exit_code=lot.code, reason=lot.reason)
        keys = [f"{part}-{number}" for number in range(2 * (part not in _NOTHING))]
        cases |= dict.fromkeys(keys, case)
        steps = list(product(keys, zip(EventType, _CALLS, strict=True)))
        if part == "attempts":
            # Both at the same time.
            steps.sort(key=lambda step: step[1][0])
        for kind in (CREATED, STARTED):
            rows += self.heard(part, pod, kind, self._tick())
        for key, (kind, call) in steps:
            if kind in case.owed:
                took = 1.0 if part == "grace" and kind is STOPPED else 0.001
                rows.append(Act(self._tick(), took, call, key))
                self._now += took
                rows += self.heard(part, key, kind, self._tick())
                if part == "plain":
                    about = (key, "list_follows", f"after {kind.name}, it is")
                    rows.append(Shown(self._tick(), *about, wrong=False))
        for kind in (STOPPED, DELETED):
            rows += self.heard(part, pod, kind, self._tick())

    def heard(self, part: str, key: str, kind: EventType, at: float) -> list[Heard]:
        """The event, as each of the part's subscribers hears it."""
        case, made = self.history.cases.get(key, Case("", "")), _WALL + round(at * _SECOND)
        uid, statuses = f"{part}-pod", self._statuses.setdefault(part, {})
        ended: dict[str, Any] = {}
        if kind is DELETED:
            statuses.pop(key, None)
        elif key != uid:
            statuses[key] = pb.ContainerStatus(id=key, state=_STATES[kind], started_at=_WALL)
            if kind is STOPPED:
                # Those of `plain` end when it is said.
                ended = {"ended_ns": made if part == "plain" else _WALL + 1}
                ended |= {"exit_code": case.exit_code or 0, "reason": case.reason or ""}
        about = (ObjectKind.SANDBOX if key == uid else ObjectKind.CONTAINER, uid)
        what = (key, kind, at, made, *about, Pod("conformance", part, uid))
        return [
            Heard(
                at,
                stream,
                Announcement(*what, stream=number, received_wall_ns=made, **ended),
                tuple(statuses.values()),
            )
            for number, stream in enumerate(_STREAMS.get(part, (MAIN,)))
        ]
