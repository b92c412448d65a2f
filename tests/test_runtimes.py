"""What is known of runtimes and kubelets: the tables' boundaries."""

import re
from itertools import pairwise

import pytest

from exporter.model.events import EventType
from exporter.model.labels import Flaw, Never, StreamKind
from exporter.runtimes.known import (
    KNOWN_ISSUES,
    PROFILES,
    is_elsewhere,
    known_flaw,
    known_issues,
    profile_of,
)
from exporter.runtimes.kubelets import GENERATIONS, generation_of
from exporter.runtimes.runtime import Profile
from exporter.runtimes.versions import parse_version
from tests import ROOT, table

pytestmark = pytest.mark.quick

VERSIONS = table(__file__, "runtimes.yaml")
OF_RUNTIMES = {
    *("containerd#11579", "containerd#10589", "containerd#13049"),
    *("containerd#13814", "containerd#13849", "cri-o#9840"),
}


def pairs(section: str) -> list[tuple[str, str]]:
    return [(name, each) for name, versions in VERSIONS[section].items() for each in versions]


@pytest.mark.parametrize(
    ("name", "version", "stream"),
    [
        (name, version, StreamKind(stream))
        for name, streams in VERSIONS["streams"].items()
        for stream, versions in streams.items()
        for version in versions
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


@pytest.mark.parametrize(("name", "version"), pairs("unknown"))
def test_an_unknown_runtime_is_not_safe_to_share(name: str, version: str) -> None:
    profile = profile_of(name, version)
    assert profile not in PROFILES
    assert profile.stream is StreamKind.EXCLUSIVE
    assert profile.never == {Never.FAILED_START}
    assert f"{name or '(unnamed)'} {version or '(no version)'} is not known" in profile.why


@pytest.mark.parametrize(("text", "version"), VERSIONS["numbers"].items())
def test_versions_are_read_as_runtimes_write_them(text: str, version: list[int] | None) -> None:
    assert parse_version(text) == (version and tuple(version))


@pytest.mark.parametrize("name", ["containerd", "cri-o"])
def test_the_rows_of_one_runtime_neither_overlap_nor_leave_a_gap(name: str) -> None:
    rows: list[Profile] = [row for row in PROFILES if row.name == name]
    assert rows[0].since is None
    assert rows[-1].before is None
    assert all(old.before == new.since for old, new in pairwise(rows))


def test_every_row_says_why() -> None:
    """The status page shows the text where there is no subscription."""
    assert all(row.why for row in PROFILES)


@pytest.mark.parametrize(("handler", "elsewhere"), VERSIONS["elsewhere"].items())
def test_some_handlers_keep_processes_out_of_the_cgroups(handler: str, *, elsewhere: bool) -> None:
    assert is_elsewhere(handler) is elsewhere


@pytest.mark.parametrize(("name", "version"), pairs("generations"))
def test_a_kubelets_generation_follows_from_its_version(version: str, name: str | None) -> None:
    found = generation_of(version)
    assert (found and found.name) == name


@pytest.mark.parametrize(
    ("version", "event", "cost"),
    [(version, *each) for version, costs in VERSIONS["losses"].items() for each in costs.items()],
)
def test_a_loss_or_a_flaw_costs_a_kubelet_what_it_would_have_done(
    version: str, event: str, cost: str
) -> None:
    """And the time until its next relist: since 1.37 only an exit asks for one."""
    one, (name, *flaw) = generation_of(version), event.split()
    assert one is not None
    what = EventType[name]
    assert re.search(cost, one.flawed(what, Flaw(*flaw)) if flaw else one.loss(what))


@pytest.mark.parametrize(
    ("version", "flaw", "known"),
    [
        ("1.34.0", Flaw.EMPTY_STATUS, "cri-o#9663"),
        ("1.35.0", Flaw.EMPTY_STATUS, None),
        ("1.35.0", Flaw.OUT_OF_ORDER, "cri-o#9738"),
        ("1.35.0", Flaw.NO_POD, None),
    ],
)
def test_a_flaw_is_known_of_a_version_or_news(version: str, flaw: Flaw, known: str | None) -> None:
    row = known_flaw("cri-o", version, flaw)
    assert (row and row.id) == known


def test_each_row_has_a_source_and_no_version_has_two_rows() -> None:
    assert all("#" in row.source for row in GENERATIONS)
    for row in GENERATIONS:
        last = 999 if row.until is None else row.until - 1
        assert {generation_of(f"v1.{minor}.0") for minor in (row.since, last)} == {row}
    assert [row for row in GENERATIONS if row.until is None] == [GENERATIONS[-1]]
    assert GENERATIONS[-1].name.endswith("and later")


@pytest.mark.parametrize(("node", "found"), VERSIONS["issues"].items())
def test_a_node_is_affected_by_its_runtime_and_its_kubelet(node: str, found: list[str]) -> None:
    assert [row.id for row in known_issues(*node.split(" "))] == found


def test_each_row_says_where_what_and_what_to_do() -> None:
    assert len({row.id for row in KNOWN_ISSUES}) == len(KNOWN_ISSUES)
    for row in KNOWN_ISSUES:
        assert re.fullmatch(r"https://github\.com/[a-z-]+/[a-z-]+/issues/\d+", row.link)
        assert all((row.what, row.remedy, row.affected))
    issues = {row.id: row.affected for row in KNOWN_ISSUES}
    gate = "kubelet 1.26 to 1.36, gate on"
    assert issues["k/k#123087"] == gate
    assert issues["cri-o#9663"] == f"cri-o from 1.31.0 before 1.35.0, {gate}"
    assert issues["containerd#11579"] == "containerd before 1.7.34, 2.0.9"
    assert issues["containerd#13814"] == "containerd from 2.3.2"
    assert {row.id for row in KNOWN_ISSUES if not row.of_gate} == OF_RUNTIMES


# A Kubernetes version, and what looks like one: of runtimes in the rows above, of recordings.
KUBERNETES = re.compile(r"(?<![\d.])1\.(?:2[6-9]|[3-9]\d)(?![\d.]*\d)")
CODE = ("exporter", "fleet", "promql", "replay", "simulator", "alerts", "dashboards", "scripts")
GENERATED = {"prometheusrule.yaml", "alertmanager.yml"}


def test_no_number_of_a_kubernetes_version_is_anywhere_but_in_the_table() -> None:
    """A row for a new generation is one file; texts, rules and dashboards are made of it."""
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for room in CODE
        for path in sorted((ROOT / room).rglob("*"))
        if path.suffix in {".py", ".yaml", ".txt", ".html", ".md", ".j2"}
        if path.name not in GENERATED | {"README.md"}
        if path.parent != ROOT / "exporter" / "runtimes"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if KUBERNETES.search(line)
    ]
    assert found == []
