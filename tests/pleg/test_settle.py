"""The verdicts, an example of each; and what needs other times or answers than small worlds have.

The grace is 5 s, the runtime containerd 2.
"""

from pathlib import Path

import pytest

from exporter.model.events import Inquiry, Lifecycle
from exporter.model.facts import Inquired, StreamUnproven
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import Never
from exporter.pleg.memory import RETENTION
from tests.support.facts import (
    CREATED,
    CRIO,
    EXITED,
    NOTREADY,
    READY,
    RUNNING,
    Given,
    Play,
    beat,
    created,
    deleted,
    relist,
    relists,
    started,
    stopped,
    up,
)
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


def test_what_goes_with_its_sandbox_is_not_judged_before_that_has_gone() -> None:
    """CRI-O announces no removal of a container that goes with its sandbox, which takes a while."""
    ended = {"p1": NOTREADY, "c1": EXITED.inside("p1")}
    begun = up(), relist(1, p1=READY), created("c1", 1), relist(3, **ended)
    stops = relists(5, 11, 17, p1=NOTREADY)
    play = Play(*begun, *stops, profile=CRIO)
    assert not [line for line in play.judged if "Removed" in line]
    announced = Play(*begun, *stops, deleted("c1", 17.5), relist(18), profile=CRIO)
    assert "c1 ContainerRemoved confirmed" in announced.judged
    alone = [*relists(1, 2, p1=READY), relist(3, **ended | {"p1": READY})]
    before = Play(up(), *alone, relist(5, p1=READY), *relists(6, 11), profile=CRIO)
    assert "c1 ContainerRemoved missed silent" in before.judged
    (found,) = (
        each
        for each in play.then(relist(18), relist(24))
        if each.verdict is Verdict.MISSED and each.event is Lifecycle.REMOVED
        if each.container_id == "c1"
    )
    assert (found.cause, found.rule) == (Cause.BY_DESIGN, Never.REMOVED_WITH_SANDBOX)


def test_what_waits_is_judged_though_a_later_step_already_was() -> None:
    """The removal by a rule; of the exit nothing is known before another event comes."""
    shown = {"p1": READY, "c1": RUNNING.inside("p1")}, {"p1": NOTREADY, "c1": EXITED.inside("p1")}
    play = Play(
        up(),
        beat(0.5),
        *(relist(at, **it) for at, it in enumerate(shown, 1)),
        quiet=True,
        profile=CRIO,
    )
    play.then(*relists(3, 9), beat(20), relist(21))
    of_c1 = [line for line in play.judged if line.startswith("c1")]
    assert of_c1 == ["c1 ContainerRemoved missed by_design", "c1 ContainerDied missed silent"]


def test_what_waits_is_judged_though_a_later_step_was_seen_by_the_stream_alone() -> None:
    play = Play(up(), beat(0.5), relist(1), relist(2, c1=CREATED), quiet=True)
    play.then(started("c1", 3), stopped("c1", 3.5), *relists(4, 9, c1=EXITED))
    assert play.judged == ["c1 ContainerDied confirmed", "c1 ContainerStarted unseen"]
    play.then(beat(20), relist(21, c1=EXITED))
    assert play.judged[2:] == ["c1 ContainerChanged missed silent"]


def test_an_event_made_at_the_time_of_the_baseline_is_not_before_it() -> None:
    play = Play(up(0.5), relist(1), created("c1", 2, made=1), relist(3), relist(10))
    assert play.witnessed == ["c1 ContainerDied witnessed", "c1 ContainerRemoved witnessed"]
