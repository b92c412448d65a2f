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
class Said:
    """One condition that holds: its headline, its sentences, and what to do.

    `alert`: whose runbook, at address `runbook`, says more; both empty if there is none.
    """

    mood: Mood
    text: str
    sentences: tuple[str, ...]
    todo: str
    alert: str
    runbook: str


def headline_of(node: Node, judgement: Judgement, runbooks: str = RUNBOOKS) -> tuple[Said, ...]:
    """Every condition that holds, the verdict first; `runbooks`: where they are published."""
    first, *others = (_said(each, judgement, runbooks) for each in judgement.conditions)
    found = [replace(first, sentences=(*first.sentences, *_earlier(node, judgement.account)))]
    for each in others:
        # Two conditions may have one cure.
        done = any(each.runbook == other.runbook and each.todo == other.todo for other in found)
        found.append(replace(each, todo="", alert="", runbook="") if done else each)
    return tuple(found)


def _said(condition: Condition, judgement: Judgement, runbooks: str) -> Said:
    alert = condition.alert and f"ShadowPleg{condition.alert}"
    return Said(
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
        # Where a command begins and ends is for readers of Markdown.
        yield f"{condition.todo.replace('`', '')}."


def _earlier(node: Node, account: Account) -> Iterator[str]:
    """What was lost before the window."""
    before = node.tally.lost(*LOST) - account.lost(*LOST)
    if before > 0:
        newest = node.tally.newest.items()
        last = max(wall for (_, _, cause), (_, wall) in newest if cause in LOST)
        yield f"Earlier: {before} lost, the last one at {clock(last)}."
