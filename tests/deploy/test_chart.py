"""What users of other exporters' charts expect: names, extras, monitors, rules, images."""

import functools
import json
import re
import shlex
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from alerts.render import groups
from alerts.values import FILE, load
from exporter import RUNBOOKS
from tests import ROOT
from tests.support.rendering import (
    CHART,
    ChartCase,
    Object,
    Variant,
    notes,
    switched_on,
    templated,
)

_GRAFANA: Final = "https://grafana.example.com"
_NUMBERS: Final[Object] = {
    "slo": {"objective": 99.5},
    "losses": {"relied_on": "warning", "otherwise": "info"},
    # As wide as the usual ones: expressions are laid out by their width.
    "thresholds": {"relist_slow_seconds": 20, "many_nodes": 9, "loop_lag_seconds": 0.7},
    "alerts": {"ShadowPlegRelistSlow": {"severity": "info", "for": "20m"}},
}
_ALL: Final[dict[str, Object]] = {
    "names": {
        "fullnameOverride": "watch",
        "namespaceOverride": "elsewhere",
        "commonLabels": {"team": "nodes"},
        "serviceAccount": {"name": "own", "annotations": {"a": "b"}},
        "kubelet": {"enabled": True},
        "daemonSet": {"labels": {"d": "e"}, "annotations": {"f": "g"}},
        "updateStrategy": "OnDelete",
        "revisionHistoryLimit": 3,
        "supplementalGroups": [998],
        "probes": {"startup": {"periodSeconds": 4, "timeoutSeconds": 2, "failureThreshold": 30}},
    },
    "nameOverride": {"nameOverride": "cri"},
    "account": {"serviceAccount": {"create": False, "name": "given"}},
    "extras": {
        "extraArgs": ["--missed-grace=7s"],
        "extraEnv": [{"name": "E", "value": "1"}],
        "extraEnvFrom": [{"secretRef": {"name": "s"}}],
        "extraVolumes": [{"name": "v", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "v", "mountPath": "/v"}],
        "extraObjects": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "{{ .Release.Name }}-x"},
            }
        ],
    },
    "image": {
        "image": {"registry": "a.example.com", "repository": "b/c", "tag": "1.2.3"},
        "global": {"imagePullSecrets": [{"name": "one"}]},
        "imagePullSecrets": [{"name": "two"}, {"name": "one"}],
    },
    "mirror": {
        "image": {"registry": "a.example.com", "repository": "b/c", "digest": "sha256:" + "1" * 64},
        "global": {"imageRegistry": "mirror.example.com"},
    },
    "pods": {
        "podMonitor": {
            "enabled": True,
            "namespace": "monitoring",
            "interval": "1m",
            "scrapeTimeout": "20s",
            "relabelings": [{"targetLabel": "pool", "replacement": "a"}],
            "metricRelabelings": [{"action": "drop", "sourceLabels": ["le"], "regex": "x"}],
            "extraSpec": {"sampleLimit": 1000},
        }
    },
    "services": {
        "serviceMonitor": {
            "enabled": True,
            "labels": {"release": "x"},
            "metricRelabelings": [{"action": "drop", "sourceLabels": ["le"], "regex": "x"}],
        },
        "compact": True,
    },
    "rules": {
        "prometheusRule": {
            "enabled": True,
            "namespace": "monitoring",
            "links": {"runbooks": "https://wiki.example.com/r/", "dashboards": f"{_GRAFANA}/"},
            "selectors": {"exporter": 'job="mine"', "kubelet": 'job="k", cluster="a"'},
            "leaveOut": ["ShadowPlegExportersGone"],
            "additionalRuleLabels": {"team": "nodes", "severity": "never"},
            "additionalRuleAnnotations": {"note": "x"},
            "additionalGroups": [{"name": "own", "rules": []}],
        },
        "dashboards": {"enabled": True, "namespace": "grafana"},
    },
    "usual-rules": {"prometheusRule": {"enabled": True}},
    "numbers": {"prometheusRule": {"enabled": True, **_NUMBERS}},
    "autoscaler": {
        "verticalPodAutoscaler": {"enabled": True, "maxAllowed": {"memory": "200Mi"}},
    },
    "socket": {"socket": "/run/cri-dockerd.sock"},
}


def _documented() -> dict[str, Object]:
    """The values of each `helm install` that a page shows."""
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
    return found


_DOCUMENTED: Final = _documented()


@pytest.fixture(scope="module")
def rendered() -> dict[str, Variant]:
    """Each of these values, rendered; at once: the engine starts slowly."""
    cases = _ALL | _DOCUMENTED
    objects = templated(*(ChartCase(values) for values in cases.values()))
    return {name: Variant(name, each) for name, each in zip(cases, objects, strict=True)}


@pytest.mark.parametrize("command", _DOCUMENTED)
def test_what_a_page_tells_to_install_is_a_daemon_set_of_that_image(
    rendered: dict[str, Variant], command: str
) -> None:
    """The strict schema refuses what does not exist."""
    repository = _DOCUMENTED[command]["image"]["repository"]
    assert rendered[command].container["image"].startswith(f"{repository}:")


def test_objects_are_named_labelled_and_placed_as_told(rendered: dict[str, Variant]) -> None:
    """The labels by which pods are selected, and the job of the rules, stay."""
    it = rendered["names"]
    assert {each["metadata"]["labels"]["team"] for each in it.objects} == {"nodes"}
    places = {each["metadata"].get("namespace", "elsewhere") for each in it.objects}
    assert places == {"elsewhere"}
    daemon_set = it.only("DaemonSet")
    assert daemon_set["metadata"]["name"] == "watch"
    assert daemon_set["metadata"]["labels"]["d"] == "e"
    assert daemon_set["metadata"]["annotations"] == {"f": "g"}
    assert daemon_set["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert daemon_set["spec"]["revisionHistoryLimit"] == 3
    labels = {"name": "shadow-pleg", "instance": "shadow-pleg"}
    selector = {f"app.kubernetes.io/{name}": value for name, value in labels.items()}
    assert daemon_set["spec"]["selector"]["matchLabels"] == selector
    assert it.pod["securityContext"]["supplementalGroups"] == [998]
    assert it.container["startupProbe"]["periodSeconds"] == 4
    assert it.only("ServiceAccount")["metadata"]["name"] == it.pod["serviceAccountName"] == "own"
    (subject,) = it.only("ClusterRoleBinding")["subjects"]
    assert (subject["name"], subject["namespace"]) == ("own", "elsewhere")
    assert rendered["nameOverride"].only("DaemonSet")["metadata"]["name"] == "shadow-pleg-cri"


def test_an_account_that_is_not_ours_is_only_used(rendered: dict[str, Variant]) -> None:
    """Somebody else made it."""
    assert not rendered["account"].of("ServiceAccount")
    assert rendered["account"].pod["serviceAccountName"] == "given"


def test_extras_are_there_as_they_were_given(rendered: dict[str, Variant]) -> None:
    """In the exporter's container and pod, and as objects that may name the release."""
    it = rendered["extras"]
    assert it.config.missed_grace == 7
    assert {"name": "E", "value": "1"} in it.container["env"]
    assert it.container["envFrom"] == [{"secretRef": {"name": "s"}}]
    assert {"name": "v", "emptyDir": {}} in it.pod["volumes"]
    assert {"name": "v", "mountPath": "/v"} in it.container["volumeMounts"]
    assert it.only("ConfigMap")["metadata"]["name"] == "shadow-pleg-x"


def test_the_image_comes_from_the_registry_that_was_named(rendered: dict[str, Variant]) -> None:
    """A mirror for all images beats the registry of this one."""
    it = rendered["image"]
    assert it.container["image"] == "a.example.com/b/c:1.2.3"
    assert it.pod["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    mirrored = rendered["mirror"].container["image"]
    assert mirrored == "mirror.example.com/b/c@sha256:" + "1" * 64


def test_a_pod_monitor_says_what_it_was_told(rendered: dict[str, Variant]) -> None:
    """In another namespace it selects those of ours; the label `node` stays."""
    it = rendered["pods"].only("PodMonitor")
    assert it["metadata"]["namespace"] == "monitoring"
    assert it["spec"]["namespaceSelector"] == {"matchNames": ["shadow-pleg"]}
    assert it["spec"]["sampleLimit"] == 1000
    (endpoint,) = it["spec"]["podMetricsEndpoints"]
    assert (endpoint["interval"], endpoint["scrapeTimeout"]) == ("1m", "20s")
    assert [each["targetLabel"] for each in endpoint["relabelings"]] == ["node", "pool"]
    assert endpoint["metricRelabelings"][0]["action"] == "drop"


def test_a_service_monitor_brings_its_service(rendered: dict[str, Variant]) -> None:
    """With the same job, label and port as a PodMonitor."""
    it = rendered["services"]
    monitor, service = it.only("ServiceMonitor")["spec"], it.only("Service")
    assert it.only("ServiceMonitor")["metadata"]["labels"]["release"] == "x"
    wanted = monitor["selector"]["matchLabels"]
    assert wanted.items() <= service["metadata"]["labels"].items()
    pods = it.only("DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= pods.items()
    assert monitor["jobLabel"] == "app.kubernetes.io/name"
    (endpoint,), (port,) = monitor["endpoints"], service["spec"]["ports"]
    assert endpoint["port"] == port["name"] == port["targetPort"] == "http"
    assert endpoint["relabelings"][0]["targetLabel"] == "node"
    # `compact` goes before what the user drops; tests/deploy/test_compact.py has the names.
    assert [each["sourceLabels"] for each in endpoint["metricRelabelings"]] == [
        ["__name__"],
        ["le"],
    ]


def _alerts(it: Variant) -> dict[str, Any]:
    groups = it.only("PrometheusRule")["spec"]["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def test_rules_have_the_links_and_selectors_of_the_values(rendered: dict[str, Variant]) -> None:
    """In alerts and in recording rules; what they said before stays before what is added."""
    it, usual = rendered["rules"], _alerts(rendered["usual-rules"])
    found = _alerts(it)
    assert set(usual) - set(found) == {"ShadowPlegExportersGone"}
    for name, rule in found.items():
        notes, before = rule["annotations"], usual[name]
        assert notes["runbook_url"] == f"https://wiki.example.com/r/{name}.md"
        assert notes["dashboard_url"].startswith(f"{_GRAFANA}/d/shadow-pleg-")
        assert notes["note"] == "x"
        assert rule["labels"] == {"severity": "never", "team": "nodes"} | before.get("labels", {})
        assert before["annotations"]["runbook_url"] == f"{RUNBOOKS}/{name}.md"
        assert "dashboard_url" not in before["annotations"]
    spec = it.only("PrometheusRule")["spec"]
    assert spec["groups"][-1] == {"name": "own", "rules": []}
    text = json.dumps(spec)
    assert 'job=\\"mine\\"' in text
    assert 'job=\\"k\\", cluster=\\"a\\"' in text
    assert 'job=\\"shadow-pleg\\"' not in text
    assert 'job=\\"kubelet\\"' not in text


def test_rules_have_the_numbers_of_the_values(rendered: dict[str, Variant], tmp_path: Path) -> None:
    """As if they had been set in alerts/values.yaml, where they have the same names."""
    chosen = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    for section in ("slo", "losses", "thresholds"):
        chosen[section] |= _NUMBERS[section]
    for name, grade in _NUMBERS["alerts"].items():
        chosen["alerts"][name] |= grade
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(chosen), encoding="utf-8")
    assert rendered["numbers"].only("PrometheusRule")["spec"]["groups"] == groups(load(file))


def test_dashboards_link_to_the_same_runbooks(rendered: dict[str, Variant]) -> None:
    """One value for both."""
    for each in rendered["rules"].of("ConfigMap"):
        assert each["metadata"]["namespace"] == "grafana"
        ((_, text),) = each["data"].items()
        assert "https://wiki.example.com/r" in text
        assert RUNBOOKS not in text


def test_an_autoscaler_leaves_the_limit_alone(rendered: dict[str, Variant]) -> None:
    """And the CPU, and every other container."""
    spec = rendered["autoscaler"].only("VerticalPodAutoscaler")["spec"]
    assert spec["targetRef"]["kind"] == "DaemonSet"
    ours, others = spec["resourcePolicy"]["containerPolicies"]
    assert ours["controlledResources"] == ["memory"]
    assert ours["controlledValues"] == "RequestsOnly"
    assert ours["maxAllowed"] == {"memory": "200Mi"}
    assert others == {"containerName": "*", "mode": "Off"}


def test_a_socket_in_run_itself_does_not_hide_the_containers_run(
    rendered: dict[str, Variant],
) -> None:
    """Tokens and the filter's socket are below that."""
    it = rendered["socket"]
    assert str(it.config.runtime_endpoint) == "/host/run/cri-dockerd.sock"
    (mount,) = (each for each in it.container["volumeMounts"] if each["name"] == "runtime")
    assert mount["mountPath"] == "/host/run"


def test_after_the_installation_it_says_what_to_do_next() -> None:
    """With the names that the values gave; what is on already is not advertised."""
    names = {"namespaceOverride": "elsewhere", "fullnameOverride": "watch"}
    bare = notes(ChartCase(names))
    assert "kubectl -n elsewhere rollout status daemonset/watch\n" in bare
    assert "kubectl -n elsewhere port-forward daemonset/watch 13386\n" in bare
    switches = ("podMonitor", "prometheusRule", "dashboards")
    assert [each for each in switches if f"{each}.enabled=true" in bare] == list(switches)
    whole = notes(ChartCase(names | switched_on(*switches)))
    assert ".enabled=true" not in whole
    assert "count by (node) (shadow_pleg_build_info)" in whole


def test_every_link_of_the_chart_is_to_the_projects_place() -> None:
    """Rendered or read, none leads nowhere."""
    for path in CHART.rglob("*"):
        if path.is_file():
            assert ".invalid" not in path.read_text(encoding="utf-8"), path


def test_the_schema_knows_every_value_and_no_other() -> None:
    """A value that it lacks could not be set, one that it has in excess would do nothing."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(schema["properties"]) == set(values)
    used = set(re.findall(r"\.Values\.(\w+)", "".join(_templates())))
    assert used == set(values)


def _templates() -> list[str]:
    return [path.read_text() for path in (CHART / "templates").iterdir()]
