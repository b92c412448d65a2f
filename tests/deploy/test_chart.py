"""The chart gives what the overlays give, does what its values say, and refuses all others."""

import copy
import functools
import json
import re
import shlex
from typing import Final

import promql_parser
import pytest
import yaml
from msgspec.structs import replace

from alerts.entries import ALERTS
from alerts.render import groups
from alerts.values import Grade, load
from exporter import HOME, RUNBOOKS, __version__
from exporter.settings.config import Config
from exporter.settings.declaring import flags_of
from tests import ROOT, table
from tests.support.rendering import (
    CHART,
    DEPLOY,
    IMAGE,
    SAME,
    ChartCase,
    Object,
    Variant,
    linted,
    refused,
    templated,
    variant,
)

_GRAFANA: Final = "https://grafana.example.com"
# Labels that must differ: who made it; the chart's version, which an overlay does not have.
_APART: Final = ("app.kubernetes.io/managed-by", "app.kubernetes.io/version")
# Of `serve`, set from other values.
_TAKEN: Final = {
    *("runtime-endpoint", "node-name", "cgroup-root"),
    *("web.listen-address", "web.config.file", "web.probe-address", "kubelet-pods-endpoint"),
}
# By which a pod monitor asks.
_SCHEMES: Final = {
    "pods": None,
    "asked by https": "https",
    "asked by http": "http",
    "asked by unencrypted": None,
}
_VALUES: Final = table(__file__, "chart.yaml")
_GIVEN: Final[dict[str, Object]] = _VALUES["given"]
_REFUSED: Final[dict[str, Object]] = _VALUES["refused"]


def _documented() -> dict[str, Object]:
    """The values of each `helm install` that a page shows, and those that the chart's page has."""
    found: dict[str, Object] = {}
    for page in (ROOT / "docs/quick-starts.md", ROOT / "docs/deploy.md", CHART / "README.md"):
        text = page.read_text().replace("\\\n", "")
        for number, command in enumerate(re.findall(r"^\$ (helm install .+)$", text, re.MULTILINE)):
            words = shlex.split(command)
            assert set(words[4:6]) == {"-n", "shadow-pleg"}
            assert {*words[6::2]} == {"--set"}
            values: Object = {}
            for name, _, value in (word.partition("=") for word in words[7::2]):
                *path, last = name.split(".")
                within = functools.reduce(lambda at, key: at.setdefault(key, {}), path, values)
                within[last] = value == "true" or value
            found[f"{page.name} {number}"] = values
    blocks = re.findall(
        r"^```yaml\n(.+?)^```", (CHART / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    shown = {f"values {number}": IMAGE | yaml.safe_load(it) for number, it in enumerate(blocks)}
    return found | shown


_DOCUMENTED: Final = _documented()


@pytest.mark.parametrize("name", SAME)
def test_the_chart_gives_what_kustomize_gives(name: str) -> None:
    """Object by object; `all` has each component, on OpenShift."""
    assert _by_name(variant(f"helm/{name}")) == _by_name(variant(f"kustomize/{name}"))


def _by_name(it: Variant) -> dict[tuple[str, ...], Object]:
    objects = copy.deepcopy(it.objects)
    for each in objects:
        template = each.get("spec", {}).get("template")
        for labelled in (each, template) if template else (each,):
            for label in _APART:
                labelled["metadata"]["labels"].pop(label, None)
        if each["kind"] == "SecurityContextConstraints":
            each["volumes"] = set(each["volumes"])
    return {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
        for each in objects
    }


@pytest.fixture(scope="module")
def rendered() -> dict[str, Variant]:
    """Each of these values, rendered; at once: the engine starts slowly."""
    cases = _GIVEN | _DOCUMENTED
    objects = templated(*(ChartCase(values) for values in cases.values()))
    return {name: Variant(name, each) for name, each in zip(cases, objects, strict=True)}


@pytest.mark.parametrize("command", _DOCUMENTED)
def test_what_a_page_tells_to_install_is_a_daemon_set_of_that_image(
    rendered: dict[str, Variant], command: str
) -> None:
    repository = _DOCUMENTED[command]["image"]["repository"]
    assert rendered[command].container["image"] == f"{repository}:{__version__}"


def test_objects_are_named_labelled_and_placed_as_the_values_say(
    rendered: dict[str, Variant],
) -> None:
    it = rendered["names"]
    assert {each["metadata"]["labels"]["team"] for each in it.objects} == {"nodes"}
    places = {each["metadata"].get("namespace", "elsewhere") for each in it.objects}
    assert places == {"elsewhere"}
    daemon_set = it.only("DaemonSet")
    assert daemon_set["metadata"]["name"] == "watch"
    assert daemon_set["metadata"]["annotations"] == {"f": "g"}
    assert daemon_set["spec"]["updateStrategy"] == {"type": "OnDelete"}
    labels = {"name": "shadow-pleg", "instance": "shadow-pleg"}
    selector = {f"app.kubernetes.io/{name}": value for name, value in labels.items()}
    assert daemon_set["spec"]["selector"]["matchLabels"] == selector
    assert it.pod["securityContext"]["supplementalGroups"] == [998]
    assert it.container["startupProbe"]["periodSeconds"] == 4
    assert it.only("ServiceAccount")["metadata"]["name"] == it.pod["serviceAccountName"] == "own"


def test_extras_are_there_as_they_were_given(rendered: dict[str, Variant]) -> None:
    it = rendered["extras"]
    assert (it.config.missed_grace, it.config.stream_lease) == (7, 120)
    assert {"name": "E", "value": "1"} in it.container["env"]
    assert it.container["envFrom"] == [{"secretRef": {"name": "s"}}]
    assert {"name": "v", "emptyDir": {}} in it.pod["volumes"]
    assert {"name": "v", "mountPath": "/v"} in it.container["volumeMounts"]
    assert it.only("ConfigMap")["metadata"]["name"] == "shadow-pleg-x"


def test_the_image_comes_from_the_registry_that_was_named(rendered: dict[str, Variant]) -> None:
    """A mirror for all images beats the registry of this one; without a name there is none."""
    it = rendered["image"]
    assert it.container["image"] == "a.example.com/b/c:1.2.3"
    assert it.pod["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    mirrored = rendered["mirror"].container["image"]
    assert mirrored == "mirror.example.com/b/c@sha256:" + "1" * 64


def test_a_pod_monitor_has_what_the_values_say(rendered: dict[str, Variant]) -> None:
    it = rendered["pods"].only("PodMonitor")
    assert it["metadata"]["namespace"] == "monitoring"
    assert it["spec"]["namespaceSelector"] == {"matchNames": ["shadow-pleg"]}
    assert it["spec"]["sampleLimit"] == 1000
    (endpoint,) = it["spec"]["podMetricsEndpoints"]
    assert (endpoint["interval"], endpoint["scrapeTimeout"]) == ("1m", "20s")
    relabelled = [each["targetLabel"] for each in endpoint["relabelings"]]
    assert relabelled == ["node", "__tmp_hash", "pool"]
    # By https if a web configuration is set, unless the values say otherwise.
    for name, scheme in _SCHEMES.items():
        (endpoint,) = rendered[name].only("PodMonitor")["spec"]["podMetricsEndpoints"]
        assert endpoint.get("scheme") == scheme, name


def test_rules_have_what_the_values_say_of_them(rendered: dict[str, Variant]) -> None:
    usual = load()
    links = replace(usual.links, runbooks="https://wiki.example.com/r", dashboards=_GRAFANA)
    called = {"critical": "page", "warning": "ticket", "info": "note"}
    alerts = {
        alert.name: Grade(severity=called[alert.severity])  # type: ignore[arg-type] # its name there
        for alert in ALERTS
        if alert.severity in called
    }
    alerts["ShadowPlegRelistSlow"] = Grade("note", "20m")  # type: ignore[arg-type] # as above
    values = replace(
        usual,
        links=links,
        alerts=alerts,
        leave_out=["ShadowPlegExportersGone"],
        losses=replace(usual.losses, relied_on="page", otherwise="ticket"),
        kubelets="replace",
        thresholds=replace(usual.thresholds, exporter_restarts=5, many_nodes_ratio=0.25),
    )
    wanted = groups(values)
    *found, own = rendered["rules"].only("PrometheusRule")["spec"]["groups"]
    assert own == {"name": "own", "rules": []}
    for rule in (rule for group in found for rule in group["rules"] if "alert" in rule):
        assert rule["annotations"].pop("note") == "x"
        assert rule["labels"].pop("team") == "nodes"
        if rule["labels"] == {"severity": "never"}:
            del rule["labels"]
    text = json.dumps(found)
    for ours, theirs in (("shadow-pleg", 'job="mine"'), ("kubelet", 'job="k", cluster="a"')):
        assert json.dumps(theirs)[1:-1] in text
        text = text.replace(json.dumps(theirs)[1:-1], json.dumps(f'job="{ours}"')[1:-1])
    found = json.loads(text)
    for rule in (rule for group in found for rule in group["rules"]):
        # A longer number may break a line elsewhere.
        rule["expr"] = promql_parser.parse(rule["expr"]).prettify()
    assert found == wanted
    for each in rendered["rules"].of("ConfigMap"):
        assert each["metadata"]["namespace"] == "grafana"
        ((_, board),) = each["data"].items()
        assert "https://wiki.example.com/r" in board
        assert RUNBOOKS not in board
    assert rendered["rules"].config.web_runbooks_url == "https://wiki.example.com/r"


def test_a_socket_in_run_itself_does_not_hide_the_containers_run(
    rendered: dict[str, Variant],
) -> None:
    it = rendered["socket"]
    assert str(it.config.runtime_endpoint) == "/host/run/cri-dockerd.sock"
    (mount,) = (each for each in it.container["volumeMounts"] if each["name"] == "runtime")
    assert mount["mountPath"] == "/host/run"


def test_helm_has_nothing_to_say_of_the_chart() -> None:
    assert linted() == []


@pytest.mark.quick
def test_the_schema_knows_every_value_and_flag_and_no_other() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    known = json.loads((CHART / "values.schema.json").read_text())["properties"]
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    used = set(re.findall(r"[.$]Values\.(\w+)", templates))
    assert set(known) == set(values) == used
    flags = {each.flag.removeprefix("--") for each in flags_of(Config)}
    assert set(known["flags"]["propertyNames"]["enum"]) == flags - _TAKEN


def test_version_and_home_are_the_programs() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    (image,) = yaml.safe_load((DEPLOY / "base/kustomization.yaml").read_text())["images"]
    assert {about["version"], about["appVersion"], image["newTag"]} == {__version__}
    assert about["home"] == HOME
    for page in ("docs/deploy.md", "docs/quick-starts.md", "CONTRIBUTING.md"):
        found = re.findall(r"shadow[-_]pleg[:-](\d+\.\d+\.\d+)", (ROOT / page).read_text())
        assert set(found) <= {__version__}, page


def test_values_that_cannot_be_are_named() -> None:
    """All at once: the engine starts slowly."""
    found = refused(*map(ChartCase, _REFUSED.values()))
    assert [
        (says, error) for says, error in zip(_REFUSED, found, strict=True) if says not in error
    ] == []
