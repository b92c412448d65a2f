"""What the page ships of others is what they publish, and says whose it is."""

import json
import re
from pathlib import Path

import pytest

from exporter.web import rendering
from testbed.fixtures import unavailable
from tests.support.browser import PARTS, locked_package

STATIC = Path(rendering.__file__).parent / "static"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("idiomorph.min.js", "dist/idiomorph.min.js"), ("idiomorph.LICENSE", "LICENSE")],
)
def test_idiomorph_is_as_its_makers_ship_it(ours: str, theirs: str) -> None:
    """Byte for byte what npm has, whose integrity npm verified by the lock."""
    published = PARTS / "idiomorph" / theirs
    if not published.is_file():
        unavailable("idiomorph was not fetched: make browser")
    assert (STATIC / ours).read_bytes() == published.read_bytes()


def test_its_version_and_licence_are_said() -> None:
    """Where it lies, for the image's bill of materials, and as the lock has them."""
    lock = locked_package("idiomorph")
    (said,) = json.loads((STATIC / "vendored.json").read_text(encoding="utf-8"))
    assert said["name"] == "idiomorph"
    assert said["version"] == lock["version"]
    assert said["licenses"] == [{"expression": lock["license"]}]
    assert said["purl"] == f"pkg:npm/idiomorph@{lock['version']}"
    assert re.fullmatch(r"sha512-[A-Za-z0-9+/]{86}==", lock["integrity"])


def test_all_that_is_served_is_accounted_for() -> None:
    """Nothing lies there that no page loads, but for what says whose it is."""
    there = {path.name for path in STATIC.iterdir()}
    assert there == {*rendering.STATIC_TYPES, "README.md", "vendored.json", "idiomorph.LICENSE"}
