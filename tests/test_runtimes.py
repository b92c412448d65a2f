"""What is known of runtimes and kubelets: the tables' boundaries."""

import re
from itertools import pairwise

import pytest

from exporter.model.events import EventType
from exporter.model.labels import Never, StreamKind
from exporter.runtimes.known import KNOWN_ISSUES, PROFILES, is_elsewhere, known_issues, profile_of
from exporter.runtimes.kubelets import GENERATIONS, REWRITE, generation_of
from exporter.runtimes.runtime import Profile, Version, parse_version

pytestmark = pytest.mark.quick

NONE, EXCLUSIVE, FRAGILE, BROADCAST = StreamKind
CREATED, STARTED, STOPPED, DELETED = EventType
OF_KUBELETS = ["k/k#123087", "k/k#121003", "k/k#121349", "k/k#124704", "k/k#128654"]
RESIZE, ORDER = "k/k#129829", "cri-o#9738"
HANGS = ["containerd#13814", "containerd#13849"]


KNOWN = {
    "containerd": {
        NONE: "1.6.36 1.6.20~ds1",
        EXCLUSIVE: "1.7.0 1.7.0-beta.1 1.7.24~ds1 v1.7.34 1.99.99",
        BROADCAST: "2.0.0-rc.1 2.0.0 v2.1.9 2.1.9~ds1-1+deb14u1 10.0.0",
    },
    "cri-o": {
        NONE: "1.25.5",
        EXCLUSIVE: "1.26.0 1.27.9",
        FRAGILE: "1.28.0 1.28 1.32.99",
        BROADCAST: "1.33.0 1.36.3-dev",
    },
    "CRI-O": {BROADCAST: "1.36.3"},
}


@pytest.mark.parametrize(
    ("name", "version", "stream"),
    [
        (name, version, stream)
        for name, streams in KNOWN.items()
        for stream, versions in streams.items()
        for version in versions.split()
    ],
)
def test_a_known_runtime_is_judged_by_its_version(
    name: str, version: str, stream: StreamKind
) -> None:
    """What follows the numbers, and a `v` before them, does not matter."""
    profile = profile_of(name, version)
    assert profile in PROFILES
    assert profile.name == name.lower()
    assert profile.stream is stream


@pytest.mark.parametrize(
    ("name", "version"),
    [
        *(("", ""), ("docker", "29.0.1"), ("containerd2", "2.1.9"), ("cri-o", "\N{SNOWMAN}")),
        *(("containerd", version) for version in ("", "unknown", "2", "main-2.0.0")),
    ],
)
def test_an_unknown_runtime_is_not_safe_to_share(name: str, version: str) -> None:
    """And the reason says what was not known."""
    profile = profile_of(name, version)
    assert profile not in PROFILES
    assert profile.stream is EXCLUSIVE
    assert profile.never == {Never.FAILED_START}
    assert f"{name or '(unnamed)'} {version or '(no version)'} is not known" in profile.why


@pytest.mark.parametrize(
    ("text", "version"),
    [
        *(("1.7.24", (1, 7, 24)), ("v2.1.9", (2, 1, 9)), (" 1.33 ", (1, 33, 0))),
        *(("1.36.3-dev+unknown", (1, 36, 3)), ("1.7.24~ds1", (1, 7, 24))),
        *((none, None) for none in ("2", "", "v", "-1.2.3")),
    ],
)
def test_versions_are_read_as_runtimes_write_them(text: str, version: Version | None) -> None:
    """At least major and minor, or it is none."""
    assert parse_version(text) == version


@pytest.mark.parametrize("name", ["containerd", "cri-o"])
def test_the_rows_of_one_runtime_neither_overlap_nor_leave_a_gap(name: str) -> None:
    """Each begins where the one before it ends; the first and the last are open."""
    rows: list[Profile] = [row for row in PROFILES if row.name == name]
    assert rows[0].since is None
    assert rows[-1].before is None
    assert all(old.before == new.since for old, new in pairwise(rows))


def test_every_row_says_why() -> None:
    """The status page shows the text where there is no subscription."""
    assert all(row.why for row in PROFILES)


@pytest.mark.parametrize(
    ("handler", "elsewhere"),
    [("", False), ("runc", False), ("nvidia", False), ("kata-qemu", True), ("gVisor", True)],
)
def test_some_handlers_keep_processes_out_of_the_cgroups(handler: str, *, elsewhere: bool) -> None:
    """By their names, whatever the case."""
    assert is_elsewhere(handler) is elsewhere


@pytest.mark.parametrize(
    ("version", "name"),
    [
        *(("v1.26.0", "1.26"), ("v1.26.15+k3s1", "1.26"), ("1.36.2", "1.36")),
        *((each, "1.27 to 1.35") for each in ("v1.27.0", "v1.30.4-gke.1348000", "v1.35.9")),
        ("v1.37.0-rc.1", "1.37"),
        *((none, None) for none in ("v1.25.16", "v1.38.0-alpha.1", "v2.27.0", "", "unknown")),
    ],
)
def test_a_kubelets_generation_follows_from_its_version(version: str, name: str | None) -> None:
    """Of one that is not in the table nothing is assumed."""
    found = generation_of(version)
    assert (found and found.name) == name


@pytest.mark.parametrize(
    ("version", "relists", "errors"),
    [("v1.26.0", 300.0, 5), ("v1.31.0", 300.0, 5), ("v1.36.0", 300.0, 5), ("v1.37.0", 1.0, 5)],
)
def test_released_kubelets_try_again_at_once_and_give_up_for_good(
    version: str, relists: float, errors: int
) -> None:
    """Up to 1.36 they relist every 300 s meanwhile."""
    one = generation_of(version)
    assert one is not None
    assert (one.relist_seconds, one.retry_seconds) == (relists, 0.0)
    assert not one.gave_up(errors - 1)
    assert one.gave_up(errors)


def test_the_rewrite_never_gives_up() -> None:
    """It waits up to a minute between two attempts, and relists as if there were no events."""
    assert not REWRITE.gave_up(1e6)
    assert (REWRITE.relist_seconds, REWRITE.retry_seconds) == (1.0, 60.0)
    assert REWRITE not in GENERATIONS


@pytest.mark.parametrize(
    ("version", "event", "cost"),
    [
        ("v1.31.0", STARTED, "takes the pod's state from the event; .* up to 300 s later"),
        ("v1.37.0", STARTED, "does nothing on STARTED: the loss costs it nothing"),
        ("v1.36.0", STOPPED, "on STOPPED a kubelet 1.36 takes .* up to 300 s later"),
        ("v1.37.0", DELETED, "does nothing on DELETED: the loss costs it nothing"),
        ("v1.37.0", STOPPED, "on STOPPED a kubelet 1.37 relists that pod at once; .* 1 s later"),
        ("rewrite", CREATED, "does nothing on CREATED: the loss costs it nothing"),
        ("rewrite", STOPPED, "on STOPPED a kubelet the rewritten KEP relists .* up to 1 s later"),
    ],
)
def test_a_loss_costs_a_kubelet_what_it_would_have_done(
    version: str, event: EventType, cost: str
) -> None:
    """And the time until its next relist: since 1.37 only an exit asks for one."""
    one = generation_of(version) or REWRITE
    assert re.search(cost, one.loss(event))


def test_each_row_has_a_source_and_no_version_has_two_rows() -> None:
    """The table can be checked by others."""
    assert all("#" in row.source for row in (*GENERATIONS, REWRITE))
    minors = [minor for row in GENERATIONS for minor in row.minors]
    assert minors == list(range(26, 38))


@pytest.mark.parametrize(
    ("name", "version", "kubelet", "found"),
    [
        ("containerd", "v2.1.9", "v1.36.2", [*OF_KUBELETS, RESIZE]),
        ("containerd", "v2.1.9", "v1.31.0", OF_KUBELETS),
        ("containerd", "v2.1.9", "v1.26.15+k3s1", OF_KUBELETS),
        ("containerd", "v2.1.9", "v1.37.0", []),
        ("containerd", "v2.1.9", "v1.25.0", []),
        ("containerd", "v2.1.9", "", []),
        ("containerd", "2.0.2", "v1.31.0", [*OF_KUBELETS, "containerd#10740"]),
        ("containerd", "2.0.3", "v1.31.0", OF_KUBELETS),
        ("containerd", "2.0.2", "v1.37.0", []),
        ("containerd", "2.3.1", "v1.37.0", []),
        ("containerd", "2.3.2", "v1.37.0", HANGS),
        ("containerd", "2.3.2", "", HANGS),
        ("cri-o", "1.30.9", "v1.30.0", [*OF_KUBELETS, ORDER]),
        ("cri-o", "1.31.0", "v1.31.0", [*OF_KUBELETS, "cri-o#9663", ORDER]),
        ("CRI-O", "1.34.11", "v1.34.0", [*OF_KUBELETS, RESIZE, "cri-o#9663", ORDER]),
        ("cri-o", "1.35.0", "v1.35.0", [*OF_KUBELETS, RESIZE, ORDER]),
        ("cri-o", "unknown", "v1.36.0", [*OF_KUBELETS, RESIZE]),
    ],
)
def test_a_node_is_affected_by_its_runtime_and_its_kubelet(
    name: str, version: str, kubelet: str, found: list[str]
) -> None:
    """At the edges of each row; of a version that is not known nothing is assumed."""
    assert [row.id for row in known_issues(name, version, kubelet)] == found


def test_each_row_says_where_what_and_what_to_do() -> None:
    """Once each, with an address that can be opened."""
    assert len({row.id for row in KNOWN_ISSUES}) == len(KNOWN_ISSUES)
    for row in KNOWN_ISSUES:
        assert re.fullmatch(r"https://github\.com/[a-z-]+/[a-z-]+/issues/\d+", row.link)
        assert all((row.what, row.remedy, row.affected))
    told = {row.id: row.affected for row in KNOWN_ISSUES}
    assert told["k/k#123087"] == "kubelet 1.26 to 1.36, gate on"
    assert told["cri-o#9663"] == "cri-o from 1.31.0 before 1.35.0, kubelet 1.26 to 1.36, gate on"
    assert told["containerd#13814"] == "containerd from 2.3.2"
    assert [row.id for row in KNOWN_ISSUES if not row.of_gate] == HANGS
