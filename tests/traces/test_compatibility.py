"""docs/compatibility.md says what the profiles and the recordings say, and goes stale with them."""

import pytest

from exporter.pleg.events import EventType, ObjectKind
from exporter.pleg.profiles import PROFILES, Never
from tests.traces import compatibility
from tests.traces.compatibility import PAGE, SAFE, Heard, heard

pytestmark = pytest.mark.quick


def counted(runtime: str, kind: ObjectKind, event: EventType) -> Heard:
    """What became of one kind of event."""
    (found,) = [
        each for each in heard() if (each.runtime, each.kind, each.event) == (runtime, kind, event)
    ]
    return found


def test_the_page_is_fresh() -> None:
    """What is committed is what `make compatibility` would write."""
    assert PAGE.read_text(encoding="utf-8").splitlines() == compatibility.page().splitlines()


def test_every_profile_and_every_rule_has_its_row() -> None:
    """With the words of the code."""
    page = compatibility.page()
    for profile in PROFILES:
        assert f"| {profile.stream.value} | {SAFE[profile.stream]} |" in page
        assert profile.why in page
    for rule in Never:
        assert page.count(f"| {rule.value} |") == 1


def test_the_counts_are_those_of_the_recordings() -> None:
    """Counted by hand: in 19 scenarios, 1.7.24 announced one sandbox's CREATED, 2.1.9 all."""
    old = counted("containerd-1.7.24", ObjectKind.SANDBOX, EventType.CREATED)
    new = counted("containerd-2.1.9", ObjectKind.SANDBOX, EventType.CREATED)
    assert (old.announced, old.happened, old.by_design) == (1, 19, 18)
    assert (new.announced, new.happened, new.by_design) == (19, 19, 0)
    stopped = counted("containerd-2.1.9", ObjectKind.CONTAINER, EventType.STOPPED)
    # outage_die, outage_die_late and outage_kill9; badcmd.
    assert (stopped.down, stopped.by_design) == (3, 1)
    crio = counted("crio-1.36.3", ObjectKind.SANDBOX, EventType.DELETED)
    assert (crio.announced, crio.by_design) == (0, crio.happened)


def test_a_rule_is_shown_by_the_recordings_of_its_own_case() -> None:
    """A failed start is not a forced removal, though both cost a STOPPED."""
    (failed,) = [
        line for line in compatibility.page().splitlines() if Never.FAILED_START.value in line
    ]
    assert failed.endswith("| containerd 1.7.24: badcmd; containerd 2.1.9: badcmd |")
