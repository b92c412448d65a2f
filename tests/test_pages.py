"""Every page: what it links to, and every name in it, is there; attacks and modules have tests."""

import ast
import functools
import json
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pytest

from exporter.cli import all_commands
from testbed.containerd import VERSIONS
from tests import ROOT, table
from tests.deploy.test_policy import RELEASES
from tests.mutants.__main__ import unknown
from tests.support.expressions import rules
from tests.support.rendering import CHART, COMPONENTS, OVERLAYS, variant
from tests.support.stage import Stage

pytestmark = pytest.mark.quick

_FOLDERS: Final = ("docs", "alerts", "dashboards", "deploy", "tests")
PAGES: Final = sorted(
    [*ROOT.glob("*.md"), *(page for each in _FOLDERS for page in (ROOT / each).rglob("*.md"))]
)
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
# Of other programs, named in prose.
_OTHERS: Final = {"--build-arg", "--format", "--set", "--set-string"} | {
    "--config.custom-plugin-monitor",
    "--query.max-samples",
    "--query.timeout",
}
_FLAGS: Final = {"--version", "--help"} | {
    flag.flag for command in all_commands().values() for flag in command.flags
}
# The KEP's own name of the signal.
_KEPS: Final = {"kube_pod_missed_events"}


def _anchors(page: Path) -> set[str]:
    """What a link into a page may lead to, as GitHub names headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    heads = [
        re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", h)
        for h in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    ]
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(((?!https?:)[^)]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in _anchors(target), link


def test_the_index_has_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text()
    linked = set(re.findall(r"\]\(([a-z-]+\.md)", index))
    assert linked == {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}


@functools.cache
def _names() -> set[str]:
    families = list(Stage().registry.collect())
    samples = {sample.name for family in families for sample in family.samples}
    shipped = {rule[kind] for rule in rules() for kind in ("alert", "record") if kind in rule}
    return {family.name for family in families} | samples | shipped | _KEPS


@every_page
def test_a_page_names_only_metrics_alerts_and_files_that_exist(page: Path) -> None:
    text = page.read_text()
    named = set(
        re.findall(r"\b(?:shadow_pleg|kube_pod)[_:][a-z0-9_:]*[a-z0-9](?![\w:*]|\.\w)", text)
    )
    named |= set(re.findall(r"\bShadowPleg[A-Z]\w+", text))
    assert named <= _names()
    for name in re.findall(r"(?<![\w/.])deploy/[a-z0-9/._-]+[a-z]", text):
        assert (ROOT / name).exists(), name


@every_page
def test_a_page_names_only_flags_that_exist(page: Path) -> None:
    """Of this program, wherever one stands alone in the prose; the changelog names what is gone."""
    if page.name == "CHANGELOG.md":
        return
    named = set(re.findall(r"`(--[a-z][a-z.-]*[a-z])", page.read_text()))
    assert named <= _FLAGS | _OTHERS


def _has(schema: Any, path: list[str]) -> bool:
    for key in path:
        if "properties" not in schema:
            return True
        if key not in schema["properties"]:
            return False
        schema = schema["properties"][key]
    return True


@every_page
def test_a_page_names_only_values_of_the_chart_that_exist(page: Path) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    named = re.findall(r"`([a-z]\w+(?:\.\w+)+)(?:[:=][^`]*)?`", page.read_text())
    paths = [name.split(".") for name in named if ".jsonl" not in name]
    ours = [path for path in paths if path[0] in schema["properties"]]
    assert [path for path in ours if not _has(schema, path)] == []


def test_the_messages_of_troubleshooting_are_those_of_the_program() -> None:
    text = (ROOT / "docs/troubleshooting.md").read_text()
    cells = re.findall(r"^\| (?:log:|Helm:|`report`[a-z ]*) ([^|]+) \|", text, re.MULTILINE)
    quoted = [said for cell in cells for said in re.findall("`([^`]+)`", cell)]
    folders = (ROOT / "exporter", ROOT / "fleet", CHART / "templates")
    files = (path for each in folders for path in (*each.rglob("*.py"), *each.rglob("*.tpl")))
    source = "".join(path.read_text() for path in files)
    assert len(quoted) > 5
    assert [said for said in quoted if said not in source] == []


_ATTACKS: Final = table(__file__, "attacks.yaml")
_LAST: Final[int] = _ATTACKS.pop("last")
_ROWS: Final = [row for section in _ATTACKS.values() for row in section]


@functools.cache
def _tests_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, functions)}


def test_every_attack_has_its_answer_and_a_test_that_exists() -> None:
    for row in _ROWS:
        assert set(row) - {"minor"} == {"number", "attack", "outcome", "tests"}
        assert row["attack"], row["outcome"]
        assert row["outcome"], row["attack"]
        assert row["tests"], row["attack"]
        for path, name in (each.split("::") for each in row["tests"]):
            assert name in _tests_in(f"tests/{path}.py"), f"{row['attack']}: {path} has no {name}"
    assert len({row["attack"] for row in _ROWS}) == len(_ROWS)


def test_no_attack_goes_without_a_reason() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    gone = map(int, re.findall(r"^- Attack (\d+): \w", changes, re.MULTILINE))
    assert sorted([*(row["number"] for row in _ROWS), *gone]) == [*range(1, _LAST + 1)]


def test_the_support_matrix_names_what_the_tests_have() -> None:
    lines = (ROOT / "docs/compatibility.md").read_text(encoding="utf-8").splitlines()
    matrix = {cells[1].strip(): line for line in lines if len(cells := line.split("|")) > 4}
    for row, versions in (("Kubernetes", (*RELEASES[:3], RELEASES[-1])), ("containerd", VERSIONS)):
        assert [each for each in versions if each not in matrix[row]] == []


def test_every_overlay_is_explained() -> None:
    text = (ROOT / "docs/deploy.md").read_text()
    table = text.partition("| overlay or component | adds |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z0-9-]+)`[,| ]", table)) >= {*OVERLAYS, *COMPONENTS}


def test_the_numbers_are_those_of_the_daemonset() -> None:
    resources = variant("kustomize/containerd").container["resources"]
    text = (ROOT / "docs/deploy.md").read_text()
    for row, quantity in (
        ("memory request", resources["requests"]["memory"]),
        ("memory limit", resources["limits"]["memory"]),
        ("CPU", resources["requests"]["cpu"]),
    ):
        shown = re.sub(r"(\d)([A-Za-z])", r"\1 \2", quantity).replace("Mi", "MiB")
        assert re.search(rf"^\| {row} \| {shown}\b", text, re.MULTILINE), (row, shown)


def test_openshifts_file_is_the_one_that_is_shown() -> None:
    """The MachineConfig holds the same lines as the drop-in, encoded."""
    text = (ROOT / "docs/rollout.md").read_text()
    (encoded,) = re.findall(r"source: data:text/plain,(\S+)", text)
    assert "# /etc/crio/crio.conf.d/20-events.conf\n" + unquote(encoded) in text


def test_each_module_has_tests_of_its_name_or_a_line_in_the_list() -> None:
    tests, package = ROOT / "tests", ROOT / "exporter"
    files = {path.stem.removeprefix("test_") for path in tests.rglob("test_*.py")}
    modules = {
        str(path.relative_to(package).with_suffix(""))
        for path in package.rglob("*.py")
        if not path.stem.endswith(("__", "_pb2")) and path.stem not in files
    }
    text = (tests / "README.md").read_text(encoding="utf-8")
    names = re.findall(r"`([a-z_./]+)`", text.partition("| modules |")[2].partition("\n\n")[0])
    listed = {each for each in names if not each.endswith(".py")}
    assert listed == modules, "the table in tests/README.md"
    assert [each for each in names if each.endswith(".py") and not (tests / each).exists()] == []


def test_a_change_that_survives_with_a_reason_is_one_of_the_code() -> None:
    assert not unknown(), "tests/mutants/survivors.toml: rename or remove these"
