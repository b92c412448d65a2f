"""What docs/node-condition.md shows for the node readiness controller, by its own types.

Source: api/v1alpha1 and cmd/readiness-condition-reporter of that repository, in kubernetes-sigs.
"""

import re
from typing import Any, Final

import pytest
import yaml

from exporter.settings.routes import Condition
from tests import ROOT
from tests.support.rendering import variant

pytestmark = pytest.mark.quick

_PAGE: Final = (ROOT / "docs/node-condition.md").read_text()
_BLOCKS: Final = [
    yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", _PAGE, re.DOTALL)
]
RULE, SERVICE, REPORTER = _BLOCKS
ENV: Final[dict[str, Any]] = {each["name"]: each for each in REPORTER["env"]}


def test_the_rule_asks_for_what_the_reporter_says_of_a_healthy_node() -> None:
    """True, whose name must not be that of a problem."""
    (condition,) = RULE["spec"]["conditions"]
    assert condition == {"type": ENV["CONDITION_TYPE"]["value"], "requiredStatus": "True"}
    assert condition["type"] not in {each.value for each in Condition}
    assert RULE["spec"]["taint"]["key"].startswith("readiness.k8s.io/")
    # Those that the API requires, and the safe way to begin.
    assert RULE["spec"].keys() >= {"conditions", "taint", "nodeSelector"}
    assert RULE["spec"]["dryRun"] is True


def test_the_reporter_asks_the_page_of_its_own_node() -> None:
    """By a Service that leads to the pod there, and to its port."""
    name = ".".join(SERVICE["metadata"][key] for key in ("name", "namespace"))
    (port,) = SERVICE["spec"]["ports"]
    place = f"http://{name}.svc:{port['port']}"
    assert ENV["CHECK_ENDPOINT"]["value"] == f"{place}{Condition.STATE_STALE.path}"
    assert SERVICE["spec"]["internalTrafficPolicy"] == "Local"
    it = variant("kustomize/containerd")
    labels = it.only("DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert SERVICE["spec"]["selector"].items() <= labels.items()
    assert port["targetPort"] in {each["name"] for each in it.container["ports"]}
    assert port["port"] in {each["containerPort"] for each in it.container["ports"]}
