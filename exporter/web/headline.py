"""The node's verdict in words: what holds, why, and what to do about it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from exporter import RUNBOOKS
from exporter.conditions.account import LOST, Account
from exporter.conditions.condition import Condition, Mood
from exporter.conditions.sentences import clock
from exporter.node.judgement import Judgement
from exporter.node.state import Node


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


def headline_of(node: Node, judgement: Judgement, runbooks: str = RUNBOOKS) -> tuple[Headline, ...]:
    """Every condition that holds, the verdict first; `runbooks`: the address of their folder."""
    first, *others = (_headline(each, judgement, runbooks) for each in judgement.conditions)
    found = [replace(first, sentences=(*first.sentences, *_earlier(node, judgement.account)))]
    for each in others:
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


def _earlier(node: Node, account: Account) -> Iterator[str]:
    before = node.tally.lost(*LOST) - account.lost(*LOST)
    if before > 0:
        newest = node.tally.newest.items()
        last = max(wall for (_, _, cause), (_, wall) in newest if cause in LOST)
        yield f"Earlier: {before} lost, the last one at {clock(last)}."
