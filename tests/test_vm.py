"""The kernel's and the OOM witness on cgroup v2 with its memory controller, in an emulated machine.

Once with cgroups that the runtime makes, once with systemd's. `VM_OOM=full`: ten times the kills.
"""

import json
import os
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from exporter.model.events import Announcement, EventType
from exporter.model.facts import CgroupChanged
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.labels import OomKill
from replay.reader import Recording
from replay.replayer import Replay
from testbed.fixtures import unavailable
from testbed.vm.machine import LAYOUTS, boot, why_not
from tests.support.tape import Tape

FULL: Final = os.environ.get("VM_OOM", "")
# What a machine with a load of 20 needs.
SECONDS: Final = 9000 if FULL else 2400
pytestmark = [pytest.mark.soak, pytest.mark.timeout(SECONDS + 300)]
# MiB, which the manifests ask for.
MEMORY: Final = 80
SURVIVORS: Final = ("child", "child_then_0")
KILLS: Final = tuple(kind for kind in OomKill if kind is not OomKill.REASON_ONLY)
UNHEARD: Final = ("behind_shim", "without_runtime")


@dataclass(frozen=True)
class Seen:
    """What was done in the machine, and what was found of it."""

    truth: dict[str, Any]
    tape: Tape
    replay: Replay
    folder: Path

    @property
    def findings(self) -> list[Finding]:
        """All of them."""
        return self.tape.findings

    def late(self) -> set[str]:
        """Whose end was announced later than the grace, as on a machine that has little time."""
        ended, late = dict[str, float](), set()
        for fact in self.tape.facts:
            if isinstance(fact, CgroupChanged) and not fact.populated:
                ended[fact.container_id] = fact.at
            elif isinstance(fact, Announcement) and fact.type is EventType.STOPPED:
                since = fact.received - ended.pop(fact.container_id, fact.received)
                late |= {fact.container_id} if since > self.replay.recording.header.grace else set()
        return late

    def accused(self, verdict: Verdict) -> list[str]:
        """The containers with that verdict."""
        return sorted(each.container_id for each in self.findings if each.verdict is verdict)

    def kinds(self) -> dict[str, list[OomKill]]:
        """What was found of each container's kills; of "", kills of no known container."""
        found = defaultdict(list)
        for each in self.findings:
            if isinstance(each.cause, OomKill):
                found[each.container_id].append(each.cause)
        return found


@pytest.fixture(scope="module", params=LAYOUTS)
def seen(request: pytest.FixtureRequest) -> Seen:
    """What came out of a machine of that layout."""
    if reason := why_not():
        unavailable(reason)
    folder = boot(request.param, SECONDS, VM_OOM=FULL)
    truth = json.loads((folder / "truth.json").read_text())
    # pytest shows it where a test fails.
    sys.stdout.write((folder / "serve.log").read_text()[-4000:])
    assert "error" not in truth, truth["error"]
    tape = Tape()
    with (folder / "recording").open("rb") as file:
        replay = Replay(Recording(file))
        for fact, outcome in replay:
            tape.hear(fact, outcome)
    return Seen(truth, tape, replay, folder)


def expected(mode: str, code: int, reason: str) -> OomKill:
    """What a kill is, by what the runtime said at last."""
    if mode in SURVIVORS:
        return OomKill.SURVIVED
    if mode in UNHEARD:
        return OomKill.UNANNOUNCED
    announced = (code, reason) == (137, "OOMKilled")
    return OomKill.ANNOUNCED if announced else OomKill.ANNOUNCED_AS_ERROR


def test_each_kill_is_counted_once_and_of_the_right_kind(seen: Seen) -> None:
    """At most one in a hundred is of no known container; the sum is the kernel's, exactly.

    An end that comes too late counts as not announced.
    """
    truth, found, late = seen.truth, seen.kinds(), seen.late()
    kills, pods = truth["kills"], truth["pods"].values()
    # The ground truth agrees with itself: each of these is one kill, and there were no others.
    of_groups = sum(pod["oom_group_kill"] for pod in pods)
    single = sum(pod["oom_kill"] for pod in pods if not pod["oom_group_kill"])
    assert sum(pod["oom_kill"] for pod in pods) == truth["node_kills"]
    assert of_groups + single == len(kills)
    wrong, unknown = [], len(found[""])
    for mode, container, code, reason in kills:
        kinds = [kind for kind in found[container] if kind in KILLS]
        right = [[expected(mode, code, reason)], [OomKill.UNANNOUNCED] * (container in late)]
        if kinds not in right and (kinds or not unknown):
            wrong.append((mode, container, code, reason, kinds))
    assert not wrong
    assert unknown <= len(kills) / 100
    said = Counter(kind for kinds in found.values() for kind in kinds)
    exported = {
        kind: truth["metrics"][f"shadow_pleg_oom_kills_total {kind.value}"] for kind in KILLS
    }
    assert sum(said[kind] for kind in KILLS) == sum(exported.values()) == len(kills)
    assert exported[OomKill.UNATTRIBUTED] <= len(kills) / 100


def test_a_reason_that_stays_is_no_second_kill(seen: Seen) -> None:
    """OOMKilled is said of inits that lived on, and were killed by hand or ended well."""
    kinds = seen.kinds()
    said = {container for _, container, _, reason in seen.truth["kills"] if reason == "OOMKilled"}
    words = {each for each in said if OomKill.SURVIVED in kinds[each]}
    only = {key for key, of_it in kinds.items() if OomKill.REASON_ONLY in of_it}
    assert only == words


def test_ghosts_strays_and_frozen_containers_are_found_and_no_others(seen: Seen) -> None:
    """Amid lives and kills; the first ghost was there before."""
    truth = seen.truth
    assert seen.accused(Verdict.GHOST) == sorted(truth["ghosts"])
    assert seen.accused(Verdict.STRAY) == truth["strays"]
    assert seen.accused(Verdict.FROZEN) == truth["frozen"]


def test_no_event_is_missed(seen: Seen) -> None:
    """All that the runtime announced was received."""
    assert [each for each in seen.findings if each.cause is Cause.SILENT] == []
    assert seen.truth["lives"] > 3


def test_the_recording_is_judged_as_the_live_one_was(seen: Seen) -> None:
    """To its end."""
    assert (seen.replay.recording.damage, seen.replay.comparison.difference) == ("", "")


def test_check_names_the_layout_and_the_ghost(seen: Seen) -> None:
    """Exit code 0 before it, 1 with it."""
    assert seen.truth["checks"] == [0, 1]
    said = (seen.folder / "check.log").read_text()
    place = {
        "cgroupfs": "(v2, cgroupfs, in /kubepods)",
        "systemd": "(v2, systemd, in /kubepods.slice)",
    }
    assert place[seen.folder.parent.name] in said
    assert "default/ghost-before/" in said
    assert said.count(": a ghost") == 1


def test_an_observer_without_privileges_stays_small_and_ends_well(seen: Seen) -> None:
    """As the user of its pod."""
    status = seen.truth["status"]
    assert (status["Uid"].split()[0], int(status["CapEff"], 16)) == ("65532", 0)
    assert int(status["VmHWM"].split()[0]) < MEMORY << 10
    assert seen.truth["codes"] == [0, 0]
