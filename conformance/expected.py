"""What a runtime is known to breach: a file of --expect, and the ones that come along.

runtime: containerd 2.1
breaches:
  exit-reason: {because: why it is so, link: "https://..."}
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from conformance.properties import PROPERTIES
from exporter.errors import ConfigError
from exporter.settings.files import parsed_yaml, read_file

FOLDER: Final = Path(__file__).with_name("known")
_LARGEST: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Known:
    """Why a property is breached, and where that is told."""

    because: str
    link: str


@dataclass(frozen=True, slots=True)
class _File:
    runtime: str
    breaches: dict[str, Known]


def shipped() -> list[str]:
    """The names of the files that come along."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def expected(name: str) -> Mapping[str, Known]:
    """What that file, or one of `shipped`, expects; ConfigError says what is wrong with it."""
    path = FOLDER / f"{name}.yaml" if name in shipped() else Path(name)
    try:
        known = msgspec.convert(parsed_yaml(read_file(path, _LARGEST)), _File).breaches
    except ValueError as error:
        choice = ", ".join(shipped())
        raise ConfigError(f"--expect: {name!r}: {error}: give a file, or one of {choice}") from None
    if unknown := [each for each in known if each not in PROPERTIES]:
        raise ConfigError(f"--expect: {name!r} names {unknown[0]!r}, which is no property")
    return known
