"""What the image installs: the versions that were tested, each by the hashes of its files."""

import re
import tomllib
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from exporter import HOME, __version__
from tests import ROOT
from tests.support.rendering import DEPLOY

pytestmark = pytest.mark.quick

_ENTRY: Final = re.compile(
    r"^([a-z0-9-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)


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


def test_the_build_uses_only_tools_that_are_locked() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    locked = lock("build-requirements.lock")
    for requirement in map(Requirement, wanted):
        version, files = locked[canonicalize_name(requirement.name)]
        assert version in requirement.specifier
        assert files


def test_libraries_with_machine_code_have_hashes_for_more_than_one_machine() -> None:
    """One file for amd64 and one for arm64 at the least."""
    locked = lock()
    for name in ("grpcio", "aiohttp", "protobuf", "pyyaml", "bcrypt"):
        assert locked[name][1] > 2


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
    assert "--build-arg DEBIAN=" in (ROOT / "docs/deploy.md").read_text()


def test_what_the_image_copies_is_in_the_checkout_and_reaches_the_builder() -> None:
    copied = [rest.split()[:-1] for rest in _instructions("COPY")]
    wanted = {source for sources in copied for source in sources if "--from=" not in sources[0]}
    assert all((ROOT / source).exists() for source in wanted)
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == wanted


def test_the_image_has_this_version_and_home() -> None:
    (labels,) = _instructions("LABEL")
    assert f"VERSION={__version__}" in _instructions("ARG")
    assert f'org.opencontainers.image.source="{HOME}"' in labels
