"""docs/deploy.md and docs/rollout.md: what they name exists, and the numbers are those in use."""

import re
from typing import Final
from urllib.parse import unquote

from tests import ROOT
from tests.support.rendering import COMPONENTS, OVERLAYS, variant

GUIDES: Final = (ROOT / "docs" / "deploy.md", ROOT / "docs" / "rollout.md")


def test_every_overlay_is_explained() -> None:
    """In one table."""
    text = GUIDES[0].read_text()
    table = text.partition("| overlay or component | adds |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z0-9-]+)`[,| ]", table)) >= {*OVERLAYS, *COMPONENTS}


def test_the_numbers_are_those_of_the_daemonset() -> None:
    """The table says why; the manifest says what."""
    resources = variant("kustomize/containerd").container["resources"]
    text = GUIDES[0].read_text()
    for row, quantity in (
        ("memory request", resources["requests"]["memory"]),
        ("memory limit", resources["limits"]["memory"]),
        ("CPU", resources["requests"]["cpu"]),
    ):
        shown = re.sub(r"(\d)([A-Za-z])", r"\1 \2", quantity).replace("Mi", "MiB")
        assert re.search(rf"^\| {row} \| {shown}\b", text, re.MULTILINE), (row, shown)


def test_openshifts_file_is_the_one_that_is_shown() -> None:
    """The MachineConfig holds the same lines as the drop-in, encoded."""
    text = GUIDES[1].read_text()
    (encoded,) = re.findall(r"source: data:text/plain,(\S+)", text)
    assert "# /etc/crio/crio.conf.d/20-events.conf\n" + unquote(encoded) in text
