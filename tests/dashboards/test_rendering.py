"""The files are what the code renders, and bad values are named."""

import sys
from pathlib import Path

import pytest
import yaml

from alerts import values
from dashboards import __main__ as rendering
from dashboards import limits
from tests.support import boards

pytestmark = pytest.mark.quick


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the command line."""
    monkeypatch.setattr(sys, "argv", ["dashboards", *arguments])
    return rendering.main()


def test_the_files_are_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is imported is what the code says."""
    assert run(monkeypatch, "--check") == 0


def test_a_stale_file_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Changed, or missing; rendering repairs both."""
    monkeypatch.setattr(rendering, "HERE", tmp_path)
    changed = boards.FLEET.read_text(encoding="utf-8").replace("Silent misses", "Losses")
    (tmp_path / boards.FLEET.name).write_text(changed, encoding="utf-8")
    assert run(monkeypatch, "--check") == 1
    complaints = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in complaints] == [
        "dashboards/shadow-pleg-fleet.json",
        "dashboards/shadow-pleg-node.json",
    ]
    assert all(line.endswith("make dashboards") for line in complaints)
    assert run(monkeypatch) == 0
    assert run(monkeypatch, "--check") == 0


def test_other_arguments_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than taken for an order to write."""
    assert run(monkeypatch, "--chekc") == 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("labels: {node: node}\n", "missing required field"),
        ("a: [", "alerts/values.yaml"),
        (None, "No such file"),
    ],
)
def test_a_bad_values_file_is_named_with_what_is_wrong(
    tmp_path: Path, text: str | None, complaint: str
) -> None:
    """In one line."""
    path = tmp_path / "values.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        limits.read(path)
    (line,) = str(ended.value).splitlines()
    assert line.startswith(f"{path}: ")
    assert complaint in line


def test_another_threshold_makes_other_dashboards(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The values file is where they come from, not a copy of it."""
    said = yaml.safe_load(values.FILE.read_text(encoding="utf-8"))
    said["thresholds"]["relist_stale_seconds"] = 777
    said["slo"]["objective"] = 99.5
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(said), encoding="utf-8")
    changed = limits.read(path)
    assert (changed.relist_stale, changed.budget) == (777, 0.005)
    for module in ("fleet", "node", "both", "decision", "observer"):
        monkeypatch.setattr(f"dashboards.{module}.LIMITS", changed)
    fleet = rendering.rendered()[rendering.HERE / boards.FLEET.name]
    assert "> 777" in fleet
    assert "> 180" not in fleet
