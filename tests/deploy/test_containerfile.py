"""The Containerfile for any builder: it ends as the hermetic one, and installs nothing unnamed."""

import re
from pathlib import Path, PurePosixPath
from typing import Final

import pytest

from exporter import HOME, __version__
from tests import ROOT
from tests.support.rendering import DEPLOY

pytestmark = pytest.mark.quick

_ANYWHERE: Final = ROOT / "Containerfile"
_HERMETIC: Final = DEPLOY / "Containerfile"


def _instructions(path: Path) -> list[tuple[str, str]]:
    """Each instruction and what follows it, with its lines put together."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    text = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in text.split("\n"))]


def _of(path: Path, word: str) -> list[str]:
    return [rest for each, rest in _instructions(path) if each == word]


def test_both_end_with_the_same_stage() -> None:
    """What the image is, and how it is to be run, is said alike."""
    last = [path.read_text().partition("\nFROM scratch\n")[2] for path in (_ANYWHERE, _HERMETIC)]
    assert last[0] == last[1]
    assert f"ARG VERSION={__version__}\n" in last[0]
    for label in ("title", "description", "licenses", "version", "revision", "created"):
        assert f"org.opencontainers.image.{label}=" in last[0]
    assert f'org.opencontainers.image.source="{HOME}"' in last[0]


def test_every_instruction_is_one_that_all_builders_know() -> None:
    """No frontend of one builder, no file from the net that nobody checks."""
    assert not _ANYWHERE.read_text().startswith("# syntax")
    words = {word for word, _ in _instructions(_ANYWHERE) if word}
    known = {"ARG", "FROM", "RUN", "ENV", "COPY", "LABEL", "USER", "EXPOSE", "STOPSIGNAL"}
    assert words == known | {"HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert not any("--mount" in rest or "curl" in rest for rest in _of(_ANYWHERE, "RUN"))


def test_it_begins_with_the_debian_that_the_hermetic_build_has() -> None:
    """By its full name: a short one means another registry on each machine."""
    assert _of(_ANYWHERE, "FROM") == ["${DEBIAN} AS base", "base AS build", "scratch"]
    (debian,) = (rest for rest in _of(_ANYWHERE, "ARG") if rest.startswith("DEBIAN="))
    suite = re.search(r'^SUITE = "(\w+)"', (DEPLOY / "image/build").read_text(), re.MULTILINE)
    assert suite
    assert debian == f"DEBIAN=docker.io/library/debian:{suite[1]}-slim"
    wanted = re.search(r'^INCLUDED = "(.+)"', (DEPLOY / "image/build").read_text(), re.MULTILINE)
    assert wanted
    assert set(wanted[1].split(",")) < set(_of(_ANYWHERE, "RUN")[0].split())


def test_what_pip_installs_has_a_hash_or_was_made_here() -> None:
    """Neither a library nor a build tool comes from an index without one."""
    commands = [
        command
        for run in _of(_ANYWHERE, "RUN")
        for command in run.split(" && ")
        if re.search(r"-m pip .*\b(install|wheel|download)\b", command)
    ]
    assert len(commands) == 4
    for command in commands:
        assert "--no-deps" in command
        assert ("--require-hashes" in command) != ("--no-index" in command)


def test_what_it_copies_is_in_the_checkout_and_reaches_the_builder() -> None:
    """And the builder is given nothing else: neither .git nor caches."""
    wanted = set()
    for rest in _of(_ANYWHERE, "COPY"):
        *sources, _ = rest.split()
        if not sources[0].startswith("--from="):
            wanted |= set(sources)
    assert all((ROOT / source).exists() for source in wanted)
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == wanted
    built_from = (PurePosixPath(source) for source in wanted)
    assert {path.parts[0] for path in built_from} >= {"exporter", "pyproject.toml", "LICENSE"}
