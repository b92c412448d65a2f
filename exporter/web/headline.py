"""The node's verdict in words: the conditions that hold, why, and what to do about them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from exporter import RUNBOOKS
from exporter.conditions.condition import Condition, Mood
from exporter.node.judgement import Judgement


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
