"""Kustomize and Helm give the same objects; the chart refuses what it does not know."""

import copy
import functools
import json
import os
from pathlib import Path
from typing import Final

import pytest

from exporter import __version__
from exporter.settings.config import Config
from exporter.settings.declaring import flags_of
from exporter.settings.routes import PAGES
from tests.support.rendering import (
    CHART,
    DEPLOY,
    MONITORING,
    OVERLAYS,
    SAME,
    ChartCase,
    ChartError,
    Object,
    kustomized,
    linted,
    switched_on,
    templated,
    variant,
)

# Each patches what another one adds.
PARTS: Final = ("networkpolicy", "kubelet", "prometheus-operator", "compact")
_MANAGER: Final = "app.kubernetes.io/managed-by"


def _by_name(objects: tuple[Object, ...]) -> dict[tuple[str, ...], Object]:
    named: dict[tuple[str, ...], Object] = {}
    for each in objects:
        for labels in _labels(each):
            # The one thing that must differ.
            assert labels.pop(_MANAGER) in ("kustomize", "Helm")
        meta = each["metadata"]
        named[each["apiVersion"], each["kind"], meta.get("namespace", ""), meta["name"]] = each
    assert len(named) == len(objects)
    return named


def _labels(each: Object) -> list[Object]:
    template = each.get("spec", {}).get("template")
    return [each["metadata"]["labels"], *([template["metadata"]["labels"]] if template else [])]


def test_every_overlay_has_its_values() -> None:
    """No overlay is left out of the comparison."""
    assert set(OVERLAYS) == set(SAME)


@functools.cache
def _of_chart() -> dict[str, tuple[Object, ...]]:
    """What the chart gives for each overlay; at once: its engine starts slowly."""
    given = (ChartCase({**SAME[overlay], "namespace": {"create": True}}) for overlay in OVERLAYS)
    return dict(zip(OVERLAYS, templated(*given), strict=True))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_chart_gives_what_the_overlay_gives(overlay: str) -> None:
    """Object by object, but for the label that says who made it."""
    built = _by_name(copy.deepcopy(variant(f"kustomize/{overlay}").objects))
    assert _by_name(copy.deepcopy(_of_chart()[overlay])) == built


def test_components_put_together_give_what_the_chart_gives(tmp_path: Path) -> None:
    """One that asks the kubelet, on OpenShift, behind a policy; few series."""
    parts = {
        "resources": [DEPLOY / "overlays" / "openshift"],
        "components": [DEPLOY / "components" / name for name in PARTS],
    }
    lists = {k: [os.path.relpath(path, tmp_path) for path in paths] for k, paths in parts.items()}
    (tmp_path / "kustomization.yaml").write_text(json.dumps(lists), encoding="utf-8")
    on = switched_on("networkPolicy", "kubelet", *MONITORING)
    values = {"runtime": "openshift", "compact": True, "namespace": {"create": True}, **on}
    (from_chart,) = templated(ChartCase(values))
    assert _by_name(copy.deepcopy(kustomized(tmp_path))) == _by_name(from_chart)


def test_helms_linter_has_nothing_to_say() -> None:
    """In its strict mode."""
    assert linted() == []


def test_without_an_image_it_fails_with_a_sentence() -> None:
    """A name without a registry would be pulled from a public one, where anybody may take it."""
    with pytest.raises(
        ChartError, match=r"image\.repository is empty.*: build it .*, push it, and"
    ):
        templated(ChartCase({"image": {"repository": ""}}))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"runtine": "crio"}, "additional properties 'runtine' not allowed"),
        ({"runtime": "docker"}, "at '/runtime'"),
        ({"socket": "run/a.sock"}, "at '/socket'"),
        ({"socket": "/a.sock"}, "at '/socket'"),
        ({"flags": {"relist-periods": "1s"}}, "additional properties 'relist-periods' not allowed"),
        ({"flags": {"relist-period": 10}}, "at '/flags/relist-period'"),
        ({"flags": {"web.listen-address": ":1"}}, "'web.listen-address' not allowed"),
        *(
            ({"flags": {"web.telemetry-path": path}}, "at '/flags/web.telemetry-path'")
            for path in (*("metrics", "/events/", "/debug", "/static/page.css", *PAGES),)
        ),
        ({"resources": {"limits": {"cpu": "1"}}}, "additional properties 'cpu' not allowed"),
        ({"resources": {"limits": {"memory": "1"}}}, "at '/resources/limits/memory'"),
        ({"prometheusRule": {"thresholds": {"relist_slow": 9}}}, "'relist_slow' not allowed"),
        ({"prometheusRule": {"slo": {"objective": 100}}}, "at '/prometheusRule/slo/objective'"),
        ({"maxUnavailable": "0%"}, "at '/maxUnavailable'"),
        ({"image": {"digest": "sha256:1"}}, "at '/image/digest'"),
        ({"kubelet": {"enabled": True, "tls": "none"}}, "at '/kubelet/tls'"),
        ({"kubelet": {"url": "http://$(HOST_IP):10255/metrics"}}, "at '/kubelet/url'"),
        ({"networkPolicy": {"enabled": True, "from": []}}, "at '/networkPolicy/from'"),
        ({"networkPolicy": {"nodeCIDRs": ["10.0.0.1"]}}, "at '/networkPolicy/nodeCIDRs/0'"),
        ({"appArmorProfile": "Unconfined"}, "at '/appArmorProfile'"),
        ({"extraArgs": ["relist-period=1s"]}, "at '/extraArgs/0'"),
        ({"prometheusRule": {"leaveOut": ["ShadowPlegNone"]}}, "at '/prometheusRule/leaveOut/0'"),
        ({"prometheusRule": {"selectors": {"kubelet": "kubelet"}}}, "selectors/kubelet'"),
        ({"podMonitor": {"endpoint": {"port": "x"}}}, "additional properties 'port' not allowed"),
        ({"probes": {"liveness": {"periodSeconds": 0}}}, "at '/probes/liveness/periodSeconds'"),
        ({"updateStrategy": "Recreate"}, "at '/updateStrategy'"),
        ({"verticalPodAutoscaler": {"minAllowed": {"cpu": "1"}}}, "'cpu' not allowed"),
    ],
)
def test_values_that_cannot_be_are_named(values: Object, says: str) -> None:
    """A misspelt value would be a node that is watched otherwise than its owner believes."""
    with pytest.raises(ChartError, match=says):
        templated(ChartCase(values))


def test_all_files_have_the_version_of_the_program() -> None:
    """`make deploy` writes it into each of these places, and forgets none."""
    for path, times in (
        (CHART / "Chart.yaml", 2),
        (DEPLOY / "base" / "kustomization.yaml", 1),
        (DEPLOY / "components" / "labels" / "kustomization.yaml", 1),
    ):
        found = [line for line in path.read_text().splitlines() if line.endswith(__version__)]
        assert len(found) == times, path


def test_the_chart_knows_every_flag() -> None:
    """Of `serve`, but for those that other values set."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    names = {setting.flag.removeprefix("--") for setting in flags_of(Config)}
    assert names - set(schema["properties"]["flags"]["properties"]) == {
        "runtime-endpoint",
        "node-name",
        "cgroup-root",
        "web.listen-address",
        "web.config.file",
        "web.probe-address",
        "kubelet-metrics-url",
        "kubelet-token-file",
        "kubelet-ca-file",
        "kubelet-tls",
    }


def test_the_metrics_may_be_where_no_other_page_is() -> None:
    """And the monitor asks for them there."""
    path = "/conditions"
    values = {"flags": {"web.telemetry-path": path}, "podMonitor": {"enabled": True}}
    (objects,) = templated(ChartCase(values))
    (monitor,) = (each for each in objects if each["kind"] == "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["path"] == path
