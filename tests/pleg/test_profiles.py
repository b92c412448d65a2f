"""Which runtime is what: the table's boundaries."""

from itertools import pairwise

import pytest

from exporter.model.labels import Never, StreamKind
from exporter.runtimes.known import PROFILES, is_elsewhere, profile_of
from exporter.runtimes.runtime import Profile, Version, parse_version

NONE, EXCLUSIVE, FRAGILE, BROADCAST = StreamKind


@pytest.mark.parametrize(
    ("name", "version", "stream"),
    [
        ("containerd", "1.6.36", NONE),
        ("containerd", "1.6.20~ds1", NONE),
        ("containerd", "1.7.0", EXCLUSIVE),
        ("containerd", "1.7.0-beta.1", EXCLUSIVE),
        ("containerd", "1.7.24~ds1", EXCLUSIVE),
        ("containerd", "v1.7.34", EXCLUSIVE),
        ("containerd", "1.99.99", EXCLUSIVE),
        ("containerd", "2.0.0-rc.1", BROADCAST),
        ("containerd", "2.0.0", BROADCAST),
        ("containerd", "v2.1.9", BROADCAST),
        ("containerd", "2.1.9~ds1-1+deb14u1", BROADCAST),
        ("containerd", "10.0.0", BROADCAST),
        ("cri-o", "1.25.5", NONE),
        ("cri-o", "1.26.0", EXCLUSIVE),
        ("cri-o", "1.27.9", EXCLUSIVE),
        ("cri-o", "1.28.0", FRAGILE),
        ("cri-o", "1.28", FRAGILE),
        ("cri-o", "1.32.99", FRAGILE),
        ("cri-o", "1.33.0", BROADCAST),
        ("cri-o", "1.36.3-dev", BROADCAST),
        ("CRI-O", "1.36.3", BROADCAST),
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
        ("", ""),
        ("containerd", ""),
        ("containerd", "unknown"),
        ("containerd", "2"),
        ("containerd", "main-2.0.0"),
        ("cri-o", "\N{SNOWMAN}"),
        ("docker", "29.0.1"),
        ("containerd2", "2.1.9"),
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
        ("1.7.24", (1, 7, 24)),
        ("v2.1.9", (2, 1, 9)),
        (" 1.33 ", (1, 33, 0)),
        ("1.36.3-dev+unknown", (1, 36, 3)),
        ("1.7.24~ds1", (1, 7, 24)),
        ("2", None),
        ("", None),
        ("v", None),
        ("-1.2.3", None),
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
