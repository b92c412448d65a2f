"""What the status page says of this node below its headline and lanes: cards, and counts."""

import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from exporter.evidence.reasons import CAUSE_MEANINGS, MEASURES, VERDICT_MEANINGS
from exporter.evidence.timeline import lasting
from exporter.model.findings import Verdict
from exporter.model.flaws import MEANINGS
from exporter.model.labels import Call, Flaw, KernelWitness, KubeletPods
from exporter.node.health import not_alive, not_ready
from exporter.node.state import Node, Tally
from exporter.runtimes.known import known_flaw, known_issues
from exporter.runtimes.kubelets import LAST_TRUSTING
from exporter.runtimes.runtime import KnownIssue
from exporter.settings.config import Config

# Flaws and measures have rows or cards of their own; an overflow is a discarded event.
_ELSEWHERE: Final = {Verdict.MISSED, Verdict.OVERFLOW, Verdict.FLAWED, *MEASURES}


@dataclass(frozen=True, slots=True)
class Process:
    """This process. `unlogged`: how many lines of the log were dropped; `began`: monotonic."""

    unlogged: Callable[[], int] = lambda: 0
    began: float = field(default_factory=time.monotonic)


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


def cards_of(node: Node, process: Process, config: Config, now: float) -> Iterator[Card]:
    """The node at monotonic time `now`; what is a condition by itself is said above."""
    runtime, seen = node.runtime, node.inventory
    inventory = f"{seen.pods} pods, {seen.containers.total()} containers"
    name = f"{runtime.name} {runtime.version}" if runtime else "not reached yet"
    yield Card("Runtime", name, (inventory,), _issues(node))
    yield Card("Event stream", node.stream.state.value, (node.stream.note,))
    last = node.relist_succeeded
    age = "none succeeded yet" if last is None else f"{lasting(max(0.0, now - last))} ago"
    means = ", ".join(
        f"{call.value} {lasting(node.call_seconds[call] / number)}"
        for call in Call
        if (number := node.calls[call])
    )
    hanging = ", ".join([node.hanging[each] for each in node.hanging if each in node.listed][:3])
    hangs = f"ContainerStatus hangs: {hanging}" if hanging else ""
    calls = f"on average: {means}" if means else ""
    yield Card("Last relist", age, (node.relist_note, hangs, calls))
    yield _exits(node.tally)
    unseen = node.kernel.state is KernelWitness.UNAVAILABLE
    yield Card("Kernel", node.kernel.state.value, ("" if unseen else node.kernel.note,))
    if node.pods.state is not KubeletPods.OFF:
        yield _belief(node)
    steps = node.clock_steps
    yield Card(
        "Clock", "never set" if not steps else "set once" if steps == 1 else f"set {steps} times"
    )
    yield _process(node, process, config, now)


def counts_of(node: Node) -> tuple[CountRow, ...]:
    """What was found since the start, and what it means; nothing that was not found."""
    tally, missed = node.tally, Verdict.MISSED
    rows = (
        *(
            CountRow(f"missed: {cause.value}", tally.total(missed, cause), text)
            for cause, text in CAUSE_MEANINGS.items()
        ),
        *(
            CountRow(verdict.value, tally.total(verdict), text)
            for verdict, text in VERDICT_MEANINGS.items()
            if verdict not in _ELSEWHERE
        ),
        *(
            CountRow(f"flaw: {flaw.value}", tally.total(Verdict.FLAWED, flaw), _flaw(node, flaw))
            for flaw in Flaw
        ),
    )
    return tuple(row for row in rows if row.number)


def _flaw(node: Node, flaw: Flaw) -> str:
    """What it is, what it does to kubelets that trust events, and who is known for it."""
    meaning = MEANINGS[flaw]
    said = f"{meaning.what}; a kubelet up to {LAST_TRUSTING} {meaning.does}"
    runtime = node.runtime
    known = known_flaw(runtime.name, runtime.version, flaw) if runtime else None
    return f"{said}; known of this runtime: {known.id}" if known else said


def _exits(tally: Tally) -> Card:
    """How late they are announced and listed on average, and of how many that is known."""
    announced, listed = map(tally.mean_seconds, (Verdict.EXIT_ANNOUNCED, Verdict.EXIT_LISTED))
    number = tally.total(Verdict.EXIT_ANNOUNCED)
    return Card(
        "Exits",
        "none announced yet" if announced is None else f"announced after {lasting(announced)}",
        (
            "" if listed is None else f"listed after {lasting(listed)} by the shadow relist",
            f"on average of {number} exits" * (number > 0),
        ),
    )


def _belief(node: Node) -> Card:
    """How late the kubelet shows exits, on average; or why that is not known."""
    mean = node.tally.mean_seconds(Verdict.EXIT_BELIEVED)
    number = node.tally.total(Verdict.EXIT_BELIEVED)
    value = node.pods.state.value if mean is None else f"shows exits after {lasting(mean)}"
    return Card(
        "Kubelet's pods",
        value,
        (node.pods.note, f"on average of {number} exits" * (mean is not None)),
    )


def _process(node: Node, process: Process, config: Config, now: float) -> Card:
    """Whether it works, what it takes, and what it had to drop."""
    dead, unready = not_alive(node, config, now), not_ready(node, config, now)
    words = f"{'not alive' if dead else 'alive'}, {'not ready' if unready else 'ready'}"
    share = 100 * time.process_time() / max(1.0, now - process.began)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    dropped = {
        "events": node.discards,
        "cases": node.evidence_dropped,
        "lines of the log": process.unlogged(),
    }
    drops = ", ".join(f"{number} {what}" for what, number in dropped.items() if number)
    return Card(
        "Exporter",
        words,
        (
            dead,
            f"{share:.1f} % of a CPU on average, at most {most:.0f} MiB",
            f"dropped: {drops}" if drops else "",
        ),
    )


def _issues(node: Node) -> tuple[KnownIssue, ...]:
    """What is known to be broken here, whatever the kubelet."""
    return known_issues(node.runtime.name, node.runtime.version) if node.runtime else ()
