"""docs/deploy.md and docs/rollout.md: what they name exists, and the numbers are those in use."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pytest
import yaml

from tests import ROOT
from tests.support.exposition import metrics_in_code
from tests.support.rendering import DEPLOY, kustomized, only
from tests.support.variants import OVERLAYS

GUIDES: Final = (ROOT / "docs" / "deploy.md", ROOT / "docs" / "rollout.md")


def _rules() -> tuple[set[str], set[str]]:
    """Names of alerts, and of recorded series."""
    groups = yaml.safe_load((ROOT / "alerts" / "rules.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    return {r["alert"] for r in rules if "alert" in r}, {
        r["record"] for r in rules if "record" in r
    }


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_a_guide_names_only_metrics_and_alerts_that_exist(guide: Path) -> None:
    """A query that finds nothing looks like a fleet that loses nothing."""
    text = guide.read_text()
    alerts, records = _rules()
    assert set(re.findall(r"\bShadowPleg[A-Z]\w+", text)) <= alerts
    assert set(re.findall(r"\bshadow_pleg:[a-z0-9_:]+", text)) <= records
    named = set(re.findall(r"\b(?:shadow_pleg|kube_pod)_[a-z_]+\b(?!:)", text))
    assert named
    assert named <= set(metrics_in_code())


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_a_guides_links_lead_somewhere(guide: Path) -> None:
    """Of this repository; files that are named in commands, too."""
    links = re.findall(r"\]\(([^)#:]+)\)", guide.read_text())
    assert links
    for link in links:
        assert (guide.parent / link).is_file(), link
    for name in re.findall(r"\bdeploy/[a-z0-9/._-]+[a-z]", guide.read_text()):
        assert (ROOT / name).exists(), name


def test_every_overlay_is_explained() -> None:
    """In one table."""
    text = GUIDES[0].read_text()
    table = text.partition("| overlay or component | adds |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z0-9-]+)`[,| ]", table)) >= set(OVERLAYS)


def test_the_rollouts_parts_of_the_dashboard_are_there() -> None:
    """The row and the panel that it sends its reader to."""
    dashboard = json.dumps(json.loads((ROOT / "dashboards/shadow-pleg-fleet.json").read_text()))
    for title in ("May Evented PLEG be turned on?", "Transitions judged"):
        assert f"*{title}*" in GUIDES[1].read_text()
        assert title in dashboard


def test_the_numbers_are_those_of_the_daemonset() -> None:
    """The table says why; the manifest says what."""
    (container,) = only(kustomized(DEPLOY / "overlays" / "containerd"), "DaemonSet")["spec"][
        "template"
    ]["spec"]["containers"]
    text = GUIDES[0].read_text()
    resources = container["resources"]
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
