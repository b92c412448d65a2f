"""What is known to be broken: the table, and which rows affect a node."""

import re

import pytest

from exporter.runtimes.known import KNOWN_ISSUES, known_issues

OF_KUBELETS = ["k/k#123087", "k/k#121003", "k/k#121349", "k/k#124704", "k/k#128654"]
RESIZE, ORDER = "k/k#129829", "cri-o#9738"
HANGS = ["containerd#13814", "containerd#13849"]


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
