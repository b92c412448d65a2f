"""The node's state in plain words: the frozen view that the status page renders."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from exporter.evidence.reasons import CAUSE_MEANINGS, VERDICT_MEANINGS
from exporter.kubelet.state import MEANINGS
from exporter.node.judgement import Judge, longest_pause
from exporter.node.state import Node, Tally
from exporter.pleg.findings import Cause, Verdict
from exporter.pleg.known_issues import KnownIssue, known_issues
from exporter.settings.config import Config
from exporter.web.status.headline import UNWATCHED, Headline, headline_of


@dataclass(frozen=True, slots=True)
class CountRow:
    """A number and what it counts."""

    label: str
    number: int
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class InjectedLosses:
    """What the embedded runtime dropped on purpose, next to what was counted."""

    label: str
    injected: int
    counted: int


@dataclass(frozen=True, slots=True)
class Status:
    """All words and numbers on the page.

    `relist` is the age of the last one, which alone is no reason to render the page again;
    `relisted` is its unix time in seconds, None before the first. `issues`: known bugs that may be
    met here. `kubelet` is empty if the kubelet is not polled. `exits`: how late they are noticed.
    `since`: when the counts began. `compared`: whether the injected losses can be counted here,
    which takes a stream.
    """

    headline: Headline
    since: str
    runtime: str
    issues: tuple[KnownIssue, ...]
    stream: str
    stream_note: str
    queue: str
    relist: str = field(compare=False)
    relisted: int | None
    relist_note: str
    health: str
    health_notes: tuple[str, ...]
    kubelet: str
    kubelet_notes: tuple[str, ...]
    inventory: str
    missed: tuple[CountRow, ...]
    verdicts: tuple[CountRow, ...]
    exits: str
    exits_notes: tuple[str, ...]
    comparisons: tuple[InjectedLosses, ...]
    compared: bool


@dataclass(frozen=True, slots=True)
class Beside:
    """What the page shows besides the node's state.

    `queue`: length and capacity. `comparisons`: what an embedded runtime lost.
    """

    queue: tuple[int, int] = (0, 0)
    comparisons: tuple[InjectedLosses, ...] = ()


_NOTHING: Final = Beside()


def status_of(judge: Judge, config: Config, now: float, beside: Beside = _NOTHING) -> Status:
    """The view of a node at monotonic time `now`."""
    node = judge.node
    tally, runtime, seen = node.tally, node.runtime, node.inventory
    health, notes = _health(node, config, now)
    kubelet, said = _kubelet(node, now)
    exits, measured = _exits(tally)
    return Status(
        headline=headline_of(node, judge.at(now)),
        since=f"{datetime.fromtimestamp(node.began_wall, UTC):%Y-%m-%d %H:%M} UTC",
        runtime=f"{runtime.name} {runtime.version}" if runtime else "not reached yet",
        issues=_issues(node),
        stream=node.stream.value,
        stream_note=node.stream_note,
        queue=_queue(node, beside.queue),
        relist=_age(node, now),
        relisted=round(node.relist_succeeded_wall) or None,
        relist_note=node.relist_note,
        health=health,
        health_notes=notes,
        kubelet=kubelet,
        kubelet_notes=said,
        inventory=(
            f"{seen.pods} pods, {seen.sandboxes.total()} sandboxes,"
            f" {seen.containers.total()} containers"
        ),
        missed=tuple(
            CountRow(c.value, tally.total(Verdict.MISSED, c), text)
            for c, text in CAUSE_MEANINGS.items()
        ),
        verdicts=tuple(
            CountRow(v.value, tally.total(v), text)
            for v, text in VERDICT_MEANINGS.items()
            if v is not Verdict.OVERFLOW
        ),
        exits=exits,
        exits_notes=measured,
        comparisons=beside.comparisons,
        compared=node.stream not in UNWATCHED,
    )


def not_alive(node: Node, config: Config, now: float) -> str:
    """Why this process does not work at monotonic time `now`; empty if it does."""
    rest = max(config.relist_period, node.relist_period)
    patience = config.relist_timeout + longest_pause(rest)
    return "" if node.is_alive(now, patience) else f"no relist was begun for {patience:g} s"


def not_ready(node: Node, config: Config, now: float) -> str:
    """Why the last successful relist is too old to trust the metrics; empty if it is not."""
    if node.is_ready(now, config.relist_threshold):
        return ""
    return node.relist_note or "no relist has succeeded recently"


def _age(node: Node, now: float) -> str:
    if node.relist_succeeded is None:
        return "none succeeded yet"
    return f"{max(0.0, now - node.relist_succeeded):.0f} s ago"


def _queue(node: Node, queue: tuple[int, int]) -> str:
    length, capacity = queue
    dropped = f", {node.discards} discarded" if node.discards else ""
    return f"{length} of {capacity} events wait{dropped}"


def _health(node: Node, config: Config, now: float) -> tuple[str, tuple[str, ...]]:
    """The results of both probes, and the reasons if they fail."""
    dead, unready = not_alive(node, config, now), not_ready(node, config, now)
    words = f"{'not alive' if dead else 'alive'}, {'not ready' if unready else 'ready'}"
    # The runtime's own error is shown with the relist.
    late = f"no relist has succeeded for {config.relist_threshold:g} s" if unready else ""
    return words, tuple(filter(None, (dead, late)))


def _exits(tally: Tally) -> tuple[str, tuple[str, ...]]:
    """How late they are announced and listed on average, and of how many that is known."""
    heard, listed = map(tally.mean_seconds, (Verdict.EXIT_ANNOUNCED, Verdict.EXIT_LISTED))
    return (
        "none announced yet" if heard is None else f"announced after {heard:.3f} s",
        (
            *(() if listed is None else (f"listed after {listed:.3f} s, by the shadow relist",)),
            f"on average of {tally.total(Verdict.EXIT_ANNOUNCED)} announced exits",
        ),
    )


def _issues(node: Node) -> tuple[KnownIssue, ...]:
    """What is known to be broken here; of the kubelet's gate where its version is known."""
    if node.runtime is None:
        return ()
    reading = node.kubelet.reading if node.kubelet else None
    return known_issues(node.runtime.name, node.runtime.version, reading.version if reading else "")


def _kubelet(node: Node, now: float) -> tuple[str, tuple[str, ...]]:
    """The kubelet's gate, how it fits the runtime, and other values, or why the poll failed."""
    kubelet = node.kubelet
    if kubelet is None:
        return "", ()
    notes = [MEANINGS[node.configuration(now)], kubelet.describe(now)]
    if node.comparison is not None:
        lost = node.tally.lost(Cause.SILENT, Cause.STALLED) + node.tally.total(Verdict.GAP)
        notes.append(node.comparison.describe(node.comparing(now), lost))
    return f"gate {kubelet.gate(now).value}", tuple(filter(None, notes))
