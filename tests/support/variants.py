"""The renderings that are judged: each overlay, and the chart with what changes its objects."""

from __future__ import annotations

import functools
from itertools import product
from typing import Final

from tests.support.rendering import DEPLOY, Case, Object, kustomized, templated

OVERLAYS: Final = tuple(sorted(path.name for path in (DEPLOY / "overlays").iterdir()))
RUNTIMES: Final = ("containerd", "crio", "k3s", "openshift")
MONITORING: Final = ("podMonitor", "prometheusRule", "dashboards")
SWITCHES: Final = (*MONITORING, "networkPolicy", "priorityQuota", "kubelet")


def switched_on(*names: str) -> Object:
    """Values that switch these parts on."""
    return {name: {"enabled": True} for name in names}


# What the chart is called with to give the same as an overlay.
SAME: Final[dict[str, Object]] = {
    **{runtime: {"runtime": runtime} for runtime in RUNTIMES},
    "prometheus-operator": switched_on(*MONITORING),
    "networkpolicy": switched_on("networkPolicy"),
    "kubelet": switched_on("kubelet"),
    "web-config": {"web": {"configSecret": "shadow-pleg-web"}},
}
CHANGED: Final[Object] = {
    "socket": "/run/other/other.sock",
    "image": {"repository": "registry.invalid/a/b", "digest": "sha256:" + "0" * 64},
    "imagePullSecrets": [{"name": "pull"}],
    "flags": {"relist-period": "20s", "log.format": "json"},
    "resources": {
        "requests": {"cpu": "50m", "memory": "100Mi"},
        "limits": {"memory": "512Mi"},
    },
    "web": {"configSecret": "certificates"},
    "kubelet": {
        "enabled": True,
        "url": "https://[$(HOST_IP)]:10250/metrics",
        "tls": "insecure-skip-verify",
    },
    "maxUnavailable": 1,
    "seLinuxType": "spc_t",
    "podAnnotations": {"a": "b"},
    "podLabels": {"c": "d"},
    "podMonitor": {
        "enabled": True,
        "labels": {"release": "x"},
        "interval": "15s",
        "endpoint": {"scheme": "https"},
    },
    "prometheusRule": {"enabled": True, "labels": {"release": "x"}},
    "dashboards": {"enabled": True, "annotations": {"grafana_folder": "Nodes"}},
}


def _cases() -> dict[str, Case]:
    # The switches do not know of each other: none, each alone, and all are all there is.
    choices = ((), *((switch,) for switch in SWITCHES), SWITCHES)
    cases = {
        "/".join(("helm", runtime, *on)): Case(
            {"runtime": runtime, **switched_on(*on), "namespace": {"create": on == SWITCHES}}
        )
        for runtime, on in product(RUNTIMES, choices)
    }
    cases["helm/changed"] = Case(CHANGED, "event-watch", "observers")
    return cases


CASES: Final = _cases()
VARIANTS: Final = (*(f"kustomize/{name}" for name in OVERLAYS), *CASES)


@functools.cache
def _templated() -> dict[str, tuple[Object, ...]]:
    return dict(zip(CASES, templated(*CASES.values()), strict=True))


def variant(name: str) -> tuple[Object, ...]:
    """The objects of one of VARIANTS."""
    if name.startswith("kustomize/"):
        return kustomized(DEPLOY / "overlays" / name.removeprefix("kustomize/"))
    return _templated()[name]
