"""The words of the status page: the headline above its lanes, and the cards below them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from exporter import RUNBOOKS
from exporter.conditions.condition import Condition, Mood
from exporter.conditions.sentences import NAMED
from exporter.evidence.timeline import lasting
from exporter.model.findings import Verdict
from exporter.model.labels import KernelWitness, KubeletPods
from exporter.node.judgement import Judgement, not_alive, not_ready
from exporter.node.state import Node, Tally
from exporter.runtimes.known import known_issues
from exporter.runtimes.runtime import KnownIssue
from exporter.settings.config import Config


@dataclass(frozen=True, slots=True)
class Headline:
    """One condition that holds, in words."""

    mood: Mood
    text: str
    sentences: tuple[str, ...]
    todo: str
    # The alert and the address of its runbook; both empty if there is none.
    alert: str
    runbook: str


def headline_of(judgement: Judgement, runbooks: str = RUNBOOKS) -> tuple[Headline, ...]:
    """Every condition that holds, the verdict first; `runbooks`: the URL of their folder."""
    found: list[Headline] = []
    for each in (_headline(condition, judgement, runbooks) for condition in judgement.conditions):
        # Two conditions may have one remedy: name it once.
        done = any(each.runbook == other.runbook and each.todo == other.todo for other in found)
        found.append(replace(each, todo="", alert="", runbook="") if done else each)
    return tuple(found)


def _headline(condition: Condition, judgement: Judgement, runbooks: str) -> Headline:
    alert = condition.alert and f"ShadowPleg{condition.alert}"
    return Headline(
        condition.mood,
        condition.headline,
        tuple(condition.sentences(judgement.account, judgement.present)),
        " ".join(_todo(condition)),
        alert,
        alert and f"{runbooks}/{alert}.md",
    )


def _todo(condition: Condition) -> Iterator[str]:
    if condition.relied:
        yield f"Where the kubelet's gate EventedPLEG is on, {condition.relied}."
    if condition.todo:
        yield f"{condition.todo.replace('`', '')}."


@dataclass(frozen=True, slots=True)
class Card:
    """A row of the page."""

    title: str
    value: str
    # Shown below the value; empty ones are not.
    notes: tuple[str, ...] = ()
    issues: tuple[KnownIssue, ...] = ()


def cards_of(node: Node, config: Config, now: float) -> Iterator[Card]:
    """The cards at monotonic time `now`."""
    runtime, seen = node.runtime, node.inventory
    yield Card(
        "Runtime",
        f"{runtime.name} {runtime.version}" if runtime else "not reached yet",
        (f"{seen.pods} pods, {seen.containers.total()} containers",),
        known_issues(runtime.name, runtime.version) if runtime else (),
    )
    yield Card("Event stream", node.stream.state.value, (node.stream.note,))
    yield _last_relist(node, now)
    yield _exits(node.tally)
    unseen = node.kernel.state is KernelWitness.UNAVAILABLE
    yield Card("Kernel", node.kernel.state.value, ("" if unseen else node.kernel.note,))
    if node.pods.state is not KubeletPods.OFF:
        yield _kubelet(node)
    yield _process(node, config, now)


def _last_relist(node: Node, now: float) -> Card:
    last = node.relist_succeeded
    hangs = [words for each, words in node.hanging.items() if each in node.listed]
    hanging = ", ".join(hangs[:NAMED])
    return Card(
        "Last relist",
        "none succeeded yet" if last is None else f"{lasting(max(0.0, now - last))} ago",
        (node.relist_note, f"ContainerStatus hangs: {hanging}" if hanging else ""),
    )


def _exits(tally: Tally) -> Card:
    announced = tally.mean_seconds(Verdict.EXIT_ANNOUNCED)
    listed = tally.mean_seconds(Verdict.EXIT_LISTED)
    return Card(
        "Exits",
        "none announced yet" if announced is None else f"announced after {lasting(announced)}",
        (
            "" if listed is None else f"listed after {lasting(listed)} by the shadow relist",
            _averaged(tally, Verdict.EXIT_ANNOUNCED),
        ),
    )


def _kubelet(node: Node) -> Card:
    mean = node.tally.mean_seconds(Verdict.EXIT_BELIEVED)
    value = node.pods.state.value if mean is None else f"shows exits after {lasting(mean)}"
    notes = node.pods.note, _averaged(node.tally, Verdict.EXIT_BELIEVED)
    return Card("Kubelet's pods", value, notes)


def _averaged(tally: Tally, verdict: Verdict) -> str:
    number = tally.total(verdict)
    return f"on average of {number} exits" if number else ""


def _process(node: Node, config: Config, now: float) -> Card:
    dead, unready = not_alive(node, config, now), not_ready(node, config, now)
    dropped = {"events": node.discards, "cases": node.evidence_dropped}
    drops = ", ".join(f"{number} {what}" for what, number in dropped.items() if number)
    return Card(
        "Exporter",
        f"{'not alive' if dead else 'alive'}, {'not ready' if unready else 'ready'}",
        (dead, f"dropped: {drops}" if drops else ""),
    )
