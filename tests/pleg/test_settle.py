"""The verdicts, an example of each; and what needs other times or answers than small worlds have.

The grace is 5 s, the runtime containerd 2.
"""

from pathlib import Path

import pytest

from exporter.model.events import Inquiry
from exporter.model.facts import Inquired, StreamUnproven
from exporter.pleg.memory import RETENTION
from tests.support.facts import EXITED, Given, Play, beat, created, deleted, relist, relists, up
from tests.support.stories import stories

BOOK = Path(__file__).with_name("stories.yaml")
VERDICTS, RULES = (stories(BOOK, chapter) for chapter in ("verdicts", "rules"))


@pytest.mark.parametrize(("facts", "judged"), VERDICTS.values(), ids=VERDICTS)
def test_a_story_has_its_verdicts(facts: list[Given], judged: list[str]) -> None:
    assert RETENTION == 600
    assert Play(*facts).judged == judged


@pytest.mark.parametrize(("facts", "verdict"), RULES.values(), ids=RULES)
def test_a_rule_leads_to_this_verdict(facts: list[Given], verdict: list[str]) -> None:
    """Of one event; none if only that is named."""
    event = " ".join(verdict[0].split()[:2])
    judged = [line for line in Play(*facts).judged if line.startswith(event)]
    assert judged == [line for line in verdict if line != event]


def test_a_gap_whose_container_lived_in_a_stall_is_explained_by_it() -> None:
    """As on a real node: its start was announced while the stream stood still, and never came."""
    play = Play(up(), beat(1), created("c1", 1.5), relist(2), quiet=True)
    play.then(relist(12, c1=EXITED), Inquired(12.1, "c1", Inquiry.STARTED))
    play.then(*relists(22, 32, 43, c1=EXITED), StreamUnproven(44), beat(50))
    assert play.judged == ["c1 ContainerChanged unseen", "c1 ContainerDied missed stalled"]
    play.then(relist(52, c1=EXITED), deleted("c1", 600), beat(601), *relists(602, 610, 612))
    assert play.judged[-2:] == ["c1 ContainerRemoved confirmed", "c1 ContainerStarted gap stalled"]


def test_an_event_made_at_the_time_of_the_baseline_is_not_before_it() -> None:
    play = Play(up(0.5), relist(1), created("c1", 2, made=1), relist(3), relist(10))
    assert play.witnessed == ["c1 ContainerDied witnessed", "c1 ContainerRemoved witnessed"]
