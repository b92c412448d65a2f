"""The documentation's tables against the code: what is documented exists, and the reverse."""

import re
from pathlib import Path

import pytest

from exporter.commands.options import CheckOptions, FilterOptions, RecordOptions, ReplayOptions
from exporter.settings.config import Config
from exporter.settings.declaring import flags_of
from exporter.settings.sockets import PLACES
from fleet.options import Request
from simulator.options import Options
from testbed.containerd import VERSIONS
from tests import ROOT
from tests.deploy.test_schemas import RELEASES
from tests.support.exposition import metrics_in_code

pytestmark = pytest.mark.quick

PAGES = {
    "metrics": ROOT / "docs/metrics.md",
    "flags": ROOT / "docs/flags.md",
    "sockets": ROOT / "docs/deploy.md",
}


def rows(table: str, page: Path | None = None) -> list[list[str]]:
    """The cells of a table between its markers, without its head."""
    page = page or PAGES[table]
    text = page.read_text(encoding="utf-8")
    between = rf"<!-- {table}:begin -->\n(.*?)<!-- {table}:end -->"
    found = re.findall(between, text, re.DOTALL)
    assert len(found) == 1, f"{page} has {len(found)} tables between markers named {table}"
    lines = [line for line in found[0].splitlines() if line.strip()]
    cells = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    assert set("".join(cells[1])) <= set(":- ")
    return cells[2:]


def test_the_places_of_sockets_are_documented_as_they_are() -> None:
    """An operator sees from the table whether a node needs a flag."""
    documented = [(plain(path), used_by) for path, used_by in rows("sockets")]
    assert documented == [(str(place.path), place.used_by) for place in PLACES]


def plain(cell: str) -> str:
    """A cell without the marks of code."""
    return cell.replace("`", "")


def test_metrics_are_documented_as_they_are() -> None:
    """Each once, with its type and labels, and a meaning; none that is not there."""
    documented = [
        (plain(name), (plain(kind), tuple(sorted(re.findall(r"`(\w+)`", labels)))))
        for name, kind, labels, meaning in rows("metrics")
        if meaning
    ]
    assert sorted(documented) == sorted(metrics_in_code().items())


@pytest.mark.parametrize(
    ("table", "page", "settings"),
    [
        ("flags", PAGES["flags"], Config),
        ("check", PAGES["flags"], CheckOptions),
        ("filter", PAGES["flags"], FilterOptions),
        ("record", PAGES["flags"], RecordOptions),
        ("replay", PAGES["flags"], ReplayOptions),
        ("demo", PAGES["flags"], Options),
        ("flags", ROOT / "docs/report.md", Request),
    ],
)
def test_flags_are_documented_as_they_are(table: str, page: Path, settings: type) -> None:
    """Each flag in the order of `--help`, with its default and meaning; none that is not there."""
    documented = [[plain(cell) for cell in row] for row in rows(table, page)]
    assert documented == [
        [each.flag, each.env, plain(each.default), plain(each.help)] for each in flags_of(settings)
    ]


def test_the_support_matrix_names_what_the_tests_have() -> None:
    """Of Kubernetes' schemas and of containerd: from first to last."""
    lines = (ROOT / "docs/compatibility.md").read_text(encoding="utf-8").splitlines()
    matrix = {cells[1].strip(): line for line in lines if len(cells := line.split("|")) > 4}
    for row, versions in (
        ("Kubernetes", (*RELEASES[:3], RELEASES[-1])),
        ("containerd", VERSIONS),
    ):
        assert [each for each in versions if each not in matrix[row]] == []
