"""`make release`: what it refuses, what it writes, and that it writes the same again."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from deploy import release
from exporter import HOME, __version__
from testbed.debian import run
from tests import ROOT
from tests.support.rendering import ChartCase, templated

_CHANGES = f"# Changes\n\n## {__version__}\n\n- A change.\n\n## 0.0.1 (2026-01-01)\n\n- First.\n"
_TAG = f"v{__version__}"


@pytest.mark.quick
def test_a_clean_commit_with_a_changelog_entry_is_released() -> None:
    assert release.obstacle("", _CHANGES, []) == ""
    assert release.obstacle("", _CHANGES, ["v0.0.1", _TAG]) == ""


@pytest.mark.quick
@pytest.mark.parametrize(
    ("status", "changes", "tags", "says"),
    [
        (" M README.md\n?? x", _CHANGES, [], "the tree is not clean: commit or remove README.md"),
        ("", "## 0.0.1\n\n- First.\n", [], f"nothing under '## {__version__}': write that section"),
        ("", f"## {__version__}\n\n## 0.0.1\n\n- First.\n", [], "CHANGELOG.md says nothing"),
        ("", _CHANGES, ["v9.0.0"], f"HEAD is v9.0.0, and __version__ in .* is {__version__}"),
    ],
)
def test_anything_else_is_refused_in_one_line(
    status: str, changes: str, tags: list[str], says: str
) -> None:
    refused = release.obstacle(status, changes, tags)
    assert "\n" not in refused
    assert re.search(says, refused)


@pytest.mark.quick
def test_the_notes_are_the_versions_section() -> None:
    assert release.section(_CHANGES) == "- A change."
    assert release.section(_CHANGES, "0.0.1") == "- First."
    assert release.section((ROOT / "CHANGELOG.md").read_text())


@pytest.mark.quick
def test_the_workflows_run_make_and_nothing_else() -> None:
    """So that what happens after a push can be done anywhere; but for what a bare Debian lacks."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    files = sorted((ROOT / ".github/workflows").iterdir())
    assert [path.name for path in files] == ["ci.yml", "release.yml", "soak.yml"]
    for path in files:
        (job,) = yaml.safe_load(path.read_text())["jobs"].values()
        packages, *runs = (step["run"] for step in job["steps"] if "run" in step)
        assert packages.startswith("apt-get update && apt-get install ")
        assert {run.removeprefix("make ") for run in runs} < targets


@pytest.mark.soak  # 8 s of CPU; what a wheel contains is found by the image's tests, too
def test_two_releases_of_a_commit_have_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        release.write(folder)
    assert _sums(first) == _sums(second)
    lines = (first / "SHA256SUMS").read_text().splitlines()
    assert dict(line.split()[::-1] for line in lines) == {
        name: digest for name, digest in _sums(first).items() if name != "SHA256SUMS"
    }
    (objects,) = templated(ChartCase({}), chart=first / f"shadow-pleg-{__version__}.tgz")
    assert "DaemonSet" in {each["kind"] for each in objects}
    with tarfile.open(first / f"shadow-pleg-{__version__}-manifests.tar.gz") as archive:
        assert f"shadow-pleg-{__version__}-manifests/auto.yaml" in archive.getnames()
    (wheel,) = first.glob("shadow_pleg-*.whl")
    installed = tmp_path / "installed"
    shutil.unpack_archive(wheel, installed, "zip")
    _assert_it_works_for_its_readers(installed, tmp_path)


def _sums(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def _assert_it_works_for_its_readers(installed: Path, folder: Path) -> None:
    commit = run("git", "rev-parse", "HEAD")
    assert (installed / "exporter/commit.txt").read_text() == f"{commit}\n"
    (about,) = installed.glob("*.dist-info")
    # A package index shows the README, and none of the files that it links to.
    links = re.findall(r'(?:\]\(|src="|srcset=")([^)"]+)', (about / "METADATA").read_text())
    at_home = [link for link in links if link.startswith(f"{HOME}/")]
    assert [link for link in links if not re.match(r"https://|#", link)] == []
    paths = [re.sub(rf"^{HOME}/(blob|raw)/v{__version__}/|#.*", "", link) for link in at_home]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert paths
    command = [sys.executable, "-m", "alerts", "--output", str(folder)]
    env = os.environ | {"PYTHONPATH": str(installed)}
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)
    assert (folder / "rules.yaml").exists()
