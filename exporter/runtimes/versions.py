"""Versions as runtimes and kubelets report them."""

import re
from typing import Final

Version = tuple[int, int, int]

_NUMBERS: Final = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


def parse_version(text: str) -> Version | None:
    """Major, minor and patch from a version string; None if it has none.

    Runtimes report `v2.1.9`, `1.7.24~ds1` or `1.36.3-dev`; the suffix after the numbers is ignored.
    """
    match = _NUMBERS.match(text.strip())
    if match is None:
        return None
    major, minor, patch = match.groups(default="0")
    return int(major), int(minor), int(patch)


def within(since: Version | None, version: Version, before: Version | None) -> bool:
    """Whether `version` is at least `since` and less than `before`; None: unbounded."""
    return (since is None or since <= version) and (before is None or version < before)


def is_fixed(version: Version, fixed_in: tuple[Version, ...]) -> bool:
    """Whether `version` has a fix. `fixed_in`: its first version in each minor version that got it.

    Any other minor version has the fix only if it is later than all of these.
    """
    of_minor = [each for each in fixed_in if each[:2] == version[:2]]
    return bool(fixed_in) and version >= (of_minor or [max(fixed_in)])[0]
