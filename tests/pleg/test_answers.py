"""What the ledger returns besides findings: open steps, memory, doubts, kinds and copies."""

from dataclasses import replace
from typing import get_args

from exporter.pleg.events import Inquiry, ObjectKind, Pod
from exporter.pleg.facts import Fact, Inquired, StreamUp
from exporter.pleg.ledger import Ledger
from exporter.pleg.memory import RETENTION
from tests.support.facts import (
    CRIO,
    EXITED,
    NOTREADY,
    RUNNING,
    Play,
    created,
    deleted,
    of_sandbox,
    relist,
    started,
    stopped,
    up,
    wall_ns,
)


def test_unresolved_counts_proofs_that_still_may_be_announced() -> None:
    """A proof adds one; an announcement or a verdict removes it."""
    play = Play(up(), relist(1, c1=RUNNING), relist(2, c2=RUNNING))
    assert play.ledger.unresolved == 3
    play.then(deleted("c1", 3))
    assert play.ledger.unresolved == 2
    play.then(relist(20, c2=RUNNING))
    assert play.ledger.unresolved == 0


def test_late_copies_are_known_for_as_long_as_the_retention() -> None:
    """A removed and judged container is remembered; after the retention it is unknown."""
    play = Play(up(), relist(1, c1=EXITED), deleted("c1", 2), relist(3), relist(4), quiet=True)
    assert play.ledger.remembered == 1
    play.then(relist(3 + RETENTION - 1), deleted("c1", 3 + RETENTION - 0.5))
    assert play.judged == ["c1 ContainerRemoved confirmed", "c1 ContainerRemoved duplicate"]
    play.then(relist(700 + RETENTION), relist(700 + 2 * RETENTION))
    assert play.ledger.remembered == 0


def test_what_is_of_no_known_kind_is_called_a_container() -> None:
    """The likelier one, until a list or another event tells."""
    play = Play(up(), relist(1), created("c1", 2)._replace(kind=None))
    missed = play.then(relist(3), relist(9))
    assert {each.kind for each in missed} == {ObjectKind.CONTAINER}


def test_a_finding_names_the_container_and_its_pod() -> None:
    """As a list has them, or else the stream; for logs and exemplars."""
    web = Pod("default", "web-0", "u1")
    item = RUNNING.named("c1")._replace(name="nginx", pod=web)
    play = Play(up(), relist(1), replace(relist(2), items=(item,)), relist(20, c1=RUNNING))
    missed = play.findings[-1]
    assert (missed.name, missed.pod, missed.kind) == ("nginx", web, ObjectKind.CONTAINER)
    (gap, *_) = play.then(stopped("c2", 21)._replace(pod=web), relist(40, c1=RUNNING))
    assert (gap.container_id, gap.name, gap.pod) == ("c2", "", web)


def test_an_id_is_a_container_until_a_witness_says_otherwise() -> None:
    """Containerd 1.7 sends no status with a sandbox's DELETED."""
    ledger = Play(up(), relist(1)).ledger
    assert ledger.take(deleted("p1", 2)._replace(kind=None)).kind is ObjectKind.CONTAINER
    assert ledger.take(of_sandbox(stopped("p1", 3))).kind is ObjectKind.SANDBOX
    assert ledger.take(deleted("p1", 4)._replace(kind=None)).kind is ObjectKind.SANDBOX


def test_a_copy_is_distinguished_from_an_announcement() -> None:
    """So that each event is counted once; backlog and events of other containers are no copies."""
    ledger = Play(up(), relist(1), started("c1", 2, stream=1)).ledger
    assert ledger.take(started("c1", 2.1, made=2, stream=2)).copy
    assert not ledger.take(started("c1", 2.1, made=2, stream=1)).copy
    assert not ledger.take(stopped("c1", 2.1, made=2, stream=2)).copy
    assert not ledger.take(started("c2", 2.1, made=2, stream=2)).copy
    ledger.take(StreamUp(3, began_ns=wall_ns(3)))
    backlog = ledger.take(started("c1", 3.1, made=2, stream=2))
    assert backlog.backlog
    assert not backlog.copy


def test_an_exit_without_a_start_is_asked_about_once() -> None:
    """As soon as there is doubt; not if the stream or a list explains the exit."""
    play = Play(up(), relist(1), created("c1", 1.5), started("c2", 1.6))
    assert play.take_doubts() == ()
    play.then(relist(2, c1=EXITED, c2=EXITED, p1=NOTREADY))
    assert play.take_doubts() == ("c1",)
    assert play.take_doubts() == ()


def test_an_event_of_an_exited_container_that_ran_asks_nothing() -> None:
    """Its STARTED was announced, its exit lost."""
    play = Play(up(), relist(1), started("c1", 1.5), relist(2, c1=EXITED), deleted("c1", 3))
    assert play.take_doubts() == ()


def test_an_unanswered_question_is_asked_again_at_the_next_relist() -> None:
    """For as long as the container is listed, whatever the grace."""
    play = Play(up(), relist(1), relist(2, c1=EXITED), relist(6, c1=EXITED))
    assert play.take_doubts() == ("c1",)
    play.then(relist(30, c1=EXITED))
    assert play.take_doubts() == ("c1",)
    play.then(relist(31))
    assert play.take_doubts() == ()


def test_an_announcement_can_cause_a_doubt() -> None:
    """On CRI-O a STOPPED does not show whether a container listed EXITED ran."""
    play = Play(up(), relist(1, c1=EXITED), profile=CRIO)
    assert play.take_doubts() == ()
    play.then(stopped("c1", 2))
    assert play.take_doubts() == ("c1",)


def test_an_answer_about_an_unknown_container_is_ignored() -> None:
    """The container may have been removed while the runtime was asked."""
    play = Play(up(), relist(1), Inquired(2, "c1", Inquiry.STARTED), relist(3), relist(20))
    assert play.findings == []


def test_every_type_of_fact_has_a_handler() -> None:
    """The ledger's table has exactly the types of `Fact`."""
    assert set(Ledger._TAKES) == set(get_args(Fact))  # noqa: SLF001 - the table is the question
