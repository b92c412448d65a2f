"""The configuration of node-problem-detector, by its own rules for custom plugins.

Source: pkg/custompluginmonitor/types/config.go and types.go of kubernetes/node-problem-detector.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from exporter.settings.routes import MOST_CHARACTERS, Condition

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "deploy/node-problem-detector/shadow-pleg.json").read_text()
CONFIG: dict[str, Any] = json.loads(TEXT)
GLOBAL: dict[str, Any] = CONFIG["pluginConfig"]
KNOWN = {
    "": {"plugin", "pluginConfig", "source", "metricsReporting", "conditions", "rules"},
    "pluginConfig": {
        *("invoke_interval", "timeout", "max_output_length", "concurrency"),
        *("enable_message_change_based_condition_update", "skip_initial_status"),
    },
    "conditions": {"type", "reason", "message"},
    "rules": {"type", "condition", "reason", "path", "args", "timeout", "invoke_interval"},
}


def seconds(duration: str) -> float:
    """A duration as Go reads it; whole seconds are enough here."""
    match = re.fullmatch(r"(\d+)s", duration)
    assert match, duration
    return float(match[1])


def test_it_has_no_key_that_node_problem_detector_does_not_read() -> None:
    """Go would ignore a misspelt one."""
    assert set(CONFIG) <= KNOWN[""]
    assert set(GLOBAL) <= KNOWN["pluginConfig"]
    for part in ("conditions", "rules"):
        assert all(set(each) <= KNOWN[part] for each in CONFIG[part])


def test_it_passes_the_validation_of_node_problem_detector() -> None:
    """Custom plugins; no rule waits longer than all; each permanent one has its condition."""
    assert CONFIG["plugin"] == "custom"
    given = {each["type"] for each in CONFIG["conditions"]}
    for rule in CONFIG["rules"]:
        assert seconds(rule["timeout"]) <= seconds(GLOBAL["timeout"])
        assert rule["type"] == "permanent"
        assert rule["condition"] in given
        assert Path(rule["path"]).is_absolute()


def test_it_asks_for_each_condition_once_and_within_the_interval() -> None:
    """Its rules run at once, and never overlap with the next round."""
    asked = [rule["args"] for rule in CONFIG["rules"]]
    assert asked == [["condition", each.value] for each in Condition]
    assert [rule["condition"] for rule in CONFIG["rules"]] == [each.value for each in Condition]
    assert GLOBAL["concurrency"] >= len(CONFIG["rules"])
    assert seconds(GLOBAL["timeout"]) < seconds(GLOBAL["invoke_interval"])
    assert GLOBAL["skip_initial_status"] is True


def test_every_text_fits() -> None:
    """Messages are cut, reasons are one word in CamelCase, as Kubernetes wants them."""
    assert GLOBAL["max_output_length"] == MOST_CHARACTERS
    for each in CONFIG["conditions"]:
        assert len(each["message"]) <= MOST_CHARACTERS
    for each in (*CONFIG["conditions"], *CONFIG["rules"]):
        assert re.fullmatch(r"[A-Z][A-Za-z]+", each["reason"])
