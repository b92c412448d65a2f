"""What a release is made of and what `make release` makes of it, again the same.

The image installs the versions that were tested, each by the hashes of its files.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Final

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy import release
from exporter import HOME, __version__
from testbed.debian import run
from tests import ROOT
from tests.support.rendering import DEPLOY, ChartCase, templated

pytestmark = pytest.mark.quick

_ENTRY: Final = re.compile(
    r"^([a-z0-9-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)
_CHANGES = f"# Changes\n\n## {__version__}\n\n- A change.\n\n## 0.0.1 (2026-01-01)\n\n- First.\n"
_TAG = f"v{__version__}"


def test_a_clean_commit_with_a_changelog_entry_is_released() -> None:
    assert release.obstacle("", _CHANGES, []) == ""
    assert release.obstacle("", _CHANGES, ["v0.0.1", _TAG]) == ""


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


def test_the_notes_are_the_versions_section() -> None:
    assert release.section(_CHANGES) == "- A change."
    assert release.section(_CHANGES, "0.0.1") == "- First."
    assert release.section((ROOT / "CHANGELOG.md").read_text())


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


def lock(name: str = "requirements.lock") -> dict[str, tuple[str, int]]:
    text = (DEPLOY / name).read_text()
    entries = {
        name: (version, hashes.count("sha256:")) for name, version, hashes in _ENTRY.findall(text)
    }
    rest = _ENTRY.sub("", text)
    assert all(not line or line.startswith("#") for line in rest.splitlines()), rest
    return entries


def test_the_lock_has_the_versions_that_are_tested() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    tested = {canonicalize_name(name): version for name, version in (x.split("==") for x in lines)}
    assert {name: version for name, (version, _) in lock().items()}.items() <= tested.items()


def test_the_lock_has_all_that_users_need() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = lock()
    for text in project["dependencies"]:
        wanted = Requirement(text)
        assert locked[canonicalize_name(wanted.name)][0] in wanted.specifier
    assert not {"pytest", "mypy", "ruff", "hypothesis", "kubernetes-validate"} & set(locked)
    # Machine code: a file for amd64 and one for arm64 at the least.
    assert all(locked[it][1] > 2 for it in ("grpcio", "aiohttp", "protobuf", "pyyaml", "bcrypt"))


def test_the_build_uses_only_tools_that_are_locked() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    locked = lock("build-requirements.lock")
    for requirement in map(Requirement, wanted):
        version, files = locked[canonicalize_name(requirement.name)]
        assert version in requirement.specifier
        assert files


def _instructions(word: str) -> list[str]:
    lines = (ROOT / "Containerfile").read_text().splitlines()
    text = re.sub(r"\\\n\s*", "", "\n".join(line for line in lines if not line.startswith("#")))
    return re.findall(rf"^{word} (.*)$", text, re.MULTILINE)


def test_what_pip_installs_has_a_hash_or_was_made_here() -> None:
    commands = [
        command
        for run in _instructions("RUN")
        for command in run.split(" && ")
        if re.search(r"-m pip .*\b(install|wheel|download)\b", command)
    ]
    assert len(commands) == 3
    for command in commands:
        assert "--no-deps" in command
        assert ("--require-hashes" in command) != ("--no-index" in command)


def test_the_base_can_be_named_by_its_digest_and_the_image_says_which_it_is() -> None:
    assert _instructions("FROM") == ["${DEBIAN} AS debian", "debian AS build", "scratch"]
    before, _, last = (ROOT / "Containerfile").read_text().partition("\nFROM scratch\n")
    assert re.search(r"^ARG DEBIAN=\S+\nFROM", before, re.MULTILINE)
    assert last.startswith("ARG DEBIAN\n")
    (labels,) = _instructions("LABEL")
    assert 'org.opencontainers.image.base.name="${DEBIAN}"' in labels
    assert f'org.opencontainers.image.source="{HOME}"' in labels
    assert f"VERSION={__version__}" in _instructions("ARG")
    assert "--build-arg DEBIAN=" in (ROOT / "docs/deploy.md").read_text()


def test_what_the_image_copies_is_in_the_checkout_and_reaches_the_builder() -> None:
    copied = [rest.split()[:-1] for rest in _instructions("COPY")]
    wanted = {source for sources in copied for source in sources if "--from=" not in sources[0]}
    assert all((ROOT / source).exists() for source in wanted)
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == wanted
