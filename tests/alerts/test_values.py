"""The values file and what is made of it: bad ones are named, stale ones are found."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from alerts.__main__ import main
from alerts.values import FILE, load
from exporter.runtimes.kubelets import MOST_ERRORS, generation_of
from tests import table
from tests.support.expressions import rules

pytestmark = pytest.mark.quick


def changed(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    text, path = FILE.read_text(encoding="utf-8"), tmp_path / "values.yaml"
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return path


BAD = table(__file__, "bad_values.yaml")


@pytest.mark.parametrize("name", BAD)
def test_bad_values_are_one_line_that_names_the_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """The error says what is wrong, and where; a misspelt alert would change nothing."""
    case = BAD[name]
    path, said = changed(tmp_path, (case["old"], case["new"])), case["said"]
    assert main(["--values", str(path), "--output", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"alerts: {said}" if case.get("rules") else f"alerts: {path}: ")
    assert said in line


@pytest.mark.parametrize(
    ("flag", "path", "said"),
    [
        ("--values", "/nowhere/values.yaml", "No such file or directory: name a file"),
        ("--values", "/dev/zero", "is not a file: name a file"),
        ("--output", "/proc", "No such file or directory: name a folder"),
        ("--output", "/nowhere", "is not a folder: create it first"),
    ],
)
def test_a_place_that_is_not_there_is_said_so(
    capsys: pytest.CaptureFixture[str], flag: str, path: str, said: str
) -> None:
    assert main([flag, path]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert path in line
    assert said in line


def test_without_the_extra_the_command_says_what_to_install() -> None:
    """Exit 2, one line: the exporter does not need what parses PromQL."""
    run = "import runpy, sys; sys.modules['promql_parser'] = None; runpy.run_module('alerts')"
    done = subprocess.run(
        [sys.executable, "-c", run],
        cwd=FILE.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    said = "alerts: promql_parser is missing: run pip install 'shadow-pleg[alerts]'\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_values_reach_the_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = changed(
        tmp_path,
        ("  node: node", "  node: host"),
        ('exporter: job="shadow-pleg"', 'exporter: job="spy"'),
        ("  losses: 15m", "  losses: 20m"),
        ("  node: 15m", "  node: 20m"),
    )
    assert main(["--values", str(values), "--output", str(tmp_path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    made = (tmp_path / "rules.yaml").read_text(encoding="utf-8")
    assert "by (cluster, host)" in made
    assert 'job="spy"' in made
    assert "$labels.host" in made
    for old in ("cluster, node", 'job="shadow-pleg"', "15m]", "$labels.node"):
        assert old not in made


def test_what_is_chosen_of_an_alert_takes_the_place_of_what_ships(tmp_path: Path) -> None:
    chosen = "{ShadowPlegRelistSlow: {for: 20m}, ShadowPlegMissedEvents: {severity: info}}"
    values = changed(tmp_path, ("alerts: {}", f"alerts: {chosen}"))
    assert main(["--values", str(values), "--output", str(tmp_path)]) == 0
    made = yaml.safe_load((tmp_path / "rules.yaml").read_text(encoding="utf-8"))
    after = {it["alert"]: it for group in made["groups"] for it in group["rules"] if "alert" in it}
    before = {it["alert"]: it for it in rules() if "alert" in it}
    expected = before | {
        "ShadowPlegRelistSlow": before["ShadowPlegRelistSlow"] | {"for": "20m"},
        "ShadowPlegMissedEvents": before["ShadowPlegMissedEvents"]
        | {"labels": {"severity": "info"}},
    }
    assert after == expected


def test_what_is_said_of_kubelets_is_what_the_exporter_knows_of_them() -> None:
    assert load().thresholds.kubelet_gives_up_errors == MOST_ERRORS
    (pattern,) = set(re.findall(r'git_version!~"(.+?)"', str(rules())))
    assert "[^" not in str(rules())
    for version in (f"v1.{minor}.{patch}" for minor in range(26, 261) for patch in (0, 7)):
        known = generation_of(version)
        assert known is not None
        assert bool(re.fullmatch(pattern, version)) == known.trusts, version
