"""The node's state in a few cards, and everything that was counted."""

from collections.abc import Iterator
from dataclasses import dataclass

from exporter.evidence.reasons import CAUSE_MEANINGS, VERDICT_MEANINGS
from exporter.kubelet.state import MEANINGS
from exporter.model.findings import Verdict
from exporter.node.state import Node, Tally
from exporter.pleg.known_issues import KnownIssue, known_issues
from exporter.settings.config import Config
from exporter.web.probes import not_alive, not_ready


@dataclass(frozen=True, slots=True)
class Card:
    """`notes`: below the value; empty ones are left out."""

    title: str
    value: str
    notes: tuple[str, ...] = ()
    issues: tuple[KnownIssue, ...] = ()


@dataclass(frozen=True, slots=True)
class CountRow:
    """A number and what it counts."""

    label: str
    number: int
    meaning: str


def cards_of(node: Node, config: Config, now: float) -> Iterator[Card]:
    """The node at monotonic time `now`."""
    runtime, seen = node.runtime, node.inventory
    inventory = f"{seen.pods} pods, {seen.containers.total()} containers"
    name = f"{runtime.name} {runtime.version}" if runtime else "not reached yet"
    yield Card("Runtime", name, (inventory,), _issues(node))
    dropped = f"{node.discards} events discarded" if node.discards else ""
    yield Card("Event stream", node.stream.value, (node.stream_note, dropped))
    last = node.relist_succeeded
    age = "none succeeded yet" if last is None else f"{max(0.0, now - last):.0f} s ago"
    yield Card("Last relist", age, (node.relist_note,))
    dead, unready = not_alive(node, config, now), not_ready(node, config, now)
    words = f"{'not alive' if dead else 'alive'}, {'not ready' if unready else 'ready'}"
    yield Card("Health", words, (dead,))
    yield _exits(node.tally)
    if kubelet := node.kubelet:
        notes = MEANINGS[node.configuration(now)], kubelet.describe(now)
        yield Card("Kubelet", f"gate {kubelet.gate(now).value}", notes)


def counts_of(tally: Tally) -> dict[str, tuple[CountRow, ...]]:
    """Everything that was counted, by title."""
    missed, rest = Verdict.MISSED, VERDICT_MEANINGS.items()
    return {
        "Missed events, by cause": tuple(
            CountRow(cause.value, tally.total(missed, cause), text)
            for cause, text in CAUSE_MEANINGS.items()
        ),
        "Lifecycle events, by verdict": tuple(
            CountRow(verdict.value, tally.total(verdict), text)
            for verdict, text in rest
            if verdict is not Verdict.OVERFLOW
        ),
    }


def _exits(tally: Tally) -> Card:
    """How late they are announced and listed on average, and of how many that is known."""
    announced, listed = map(tally.mean_seconds, (Verdict.EXIT_ANNOUNCED, Verdict.EXIT_LISTED))
    return Card(
        "Exits",
        "none announced yet" if announced is None else f"announced after {announced:.3f} s",
        (
            "" if listed is None else f"listed after {listed:.3f} s, by the shadow relist",
            f"on average of {tally.total(Verdict.EXIT_ANNOUNCED)} announced exits",
        ),
    )


def _issues(node: Node) -> tuple[KnownIssue, ...]:
    """What is known to be broken here; of the kubelet's gate where its version is known."""
    if node.runtime is None:
        return ()
    reading = node.kubelet.reading if node.kubelet else None
    return known_issues(node.runtime.name, node.runtime.version, reading.version if reading else "")
