"""The files are what the code renders, and bad values are named."""

import sys
from pathlib import Path

import pytest

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
    changed = boards.FLEET.read_text(encoding="utf-8").replace("Lost silently", "Losses")
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
    # No other argument is taken for an order to write.
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
