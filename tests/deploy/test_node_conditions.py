"""What asks for the node's conditions: node-problem-detector, and the node readiness controller."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from alerts.values import seconds
from exporter.conditions.condition import NodeCondition
from exporter.settings.routes import MOST_CHARACTERS
from tests import ROOT
from tests.support.rendering import variant

pytestmark = pytest.mark.quick

CONFIG: Final[dict[str, Any]] = json.loads(
    (ROOT / "deploy/node-problem-detector/shadow-pleg.json").read_text()
)
GLOBAL: Final[dict[str, Any]] = CONFIG["pluginConfig"]
# All that node-problem-detector reads; Go would ignore a misspelt key.
KNOWN: Final = {
    "": {"plugin", "pluginConfig", "source", "metricsReporting", "conditions", "rules"},
    "pluginConfig": {
        *("invoke_interval", "timeout", "max_output_length", "concurrency"),
        *("enable_message_change_based_condition_update", "skip_initial_status"),
    },
    "conditions": {"type", "reason", "message"},
    "rules": {"type", "condition", "reason", "path", "args", "timeout", "invoke_interval"},
}
PAGE: Final = (ROOT / "docs/node-condition.md").read_text()
RULE, SERVICE, REPORTER = (
    yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
)
ENV: Final[dict[str, Any]] = {each["name"]: each for each in REPORTER["env"]}


def test_node_problem_detector_takes_the_configuration() -> None:
    assert set(CONFIG) <= KNOWN[""]
    assert set(GLOBAL) <= KNOWN["pluginConfig"]
    assert CONFIG["plugin"] == "custom"
    assert GLOBAL["max_output_length"] == MOST_CHARACTERS
    for each in CONFIG["conditions"]:
        assert set(each) <= KNOWN["conditions"]
        assert len(each["message"]) <= MOST_CHARACTERS
    for rule in CONFIG["rules"]:
        assert set(rule) <= KNOWN["rules"]
        assert rule["type"] == "permanent"
        assert rule["condition"] in {each["type"] for each in CONFIG["conditions"]}
        assert Path(rule["path"]).is_absolute()
        assert seconds(rule["timeout"]) <= seconds(GLOBAL["timeout"])
    for each in (*CONFIG["conditions"], *CONFIG["rules"]):
        # One word in CamelCase, as Kubernetes wants reasons.
        assert re.fullmatch(r"[A-Z][A-Za-z]+", each["reason"])


def test_the_plugin_asks_for_each_condition_once_and_within_the_interval() -> None:
    """Its rules run at once, and never overlap with the next round."""
    asked = [(rule["args"], rule["condition"]) for rule in CONFIG["rules"]]
    assert asked == [(["condition", each.value], each.value) for each in NodeCondition]
    assert GLOBAL["concurrency"] >= len(CONFIG["rules"])
    assert seconds(GLOBAL["timeout"]) < seconds(GLOBAL["invoke_interval"])
    assert GLOBAL["skip_initial_status"] is True


def test_the_rule_asks_for_what_the_reporter_says_of_a_healthy_node() -> None:
    (condition,) = RULE["spec"]["conditions"]
    assert condition == {"type": ENV["CONDITION_TYPE"]["value"], "requiredStatus": "True"}
    assert condition["type"] not in {each.value for each in NodeCondition}
    assert RULE["spec"]["taint"]["key"].startswith("readiness.k8s.io/")
    # Those that the API requires, and the safe way to begin.
    assert RULE["spec"].keys() >= {"conditions", "taint", "nodeSelector"}
    assert RULE["spec"]["dryRun"] is True


def test_the_reporter_asks_the_page_of_its_own_node() -> None:
    name = ".".join(SERVICE["metadata"][key] for key in ("name", "namespace"))
    (port,) = SERVICE["spec"]["ports"]
    place = f"http://{name}.svc:{port['port']}"
    assert ENV["CHECK_ENDPOINT"]["value"] == f"{place}{NodeCondition.STATE_STALE.path}"
    assert SERVICE["spec"]["internalTrafficPolicy"] == "Local"
    it = variant("kustomize/containerd")
    labels = it.only("DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert SERVICE["spec"]["selector"].items() <= labels.items()
    assert port["targetPort"] in {each["name"] for each in it.container["ports"]}
    assert port["port"] in {each["containerPort"] for each in it.container["ports"]}
