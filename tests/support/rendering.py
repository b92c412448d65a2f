"""Objects as kustomize and Helm render them, and the variants of both that are judged."""

import functools
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

from exporter.settings.config import Config
from exporter.settings.declaring import flags_of, from_text
from testbed.fixtures import part, unavailable
from tests import ROOT

DEPLOY: Final = ROOT / "deploy"
CHART: Final = DEPLOY / "helm" / "shadow-pleg"

Object = dict[str, Any]

# The one value that has to be given; this gives what the base has.
IMAGE: Final[Object] = {"image": {"repository": "set-your-image.invalid/shadow-pleg"}}


@dataclass(frozen=True, slots=True)
class ChartCase:
    """One way to render the chart."""

    values: Object = field(default_factory=dict)
    name: str = "shadow-pleg"
    namespace: str = "shadow-pleg"


@functools.cache
def kustomized(overlay: str, *components: str) -> tuple[Object, ...]:
    with TemporaryDirectory() as folder:
        asked = {
            "resources": [os.path.relpath(DEPLOY / "overlays" / overlay, Path(folder).resolve())],
            "components": [
                os.path.relpath(DEPLOY / "components" / name, Path(folder).resolve())
                for name in components
            ],
        }
        Path(folder, "kustomization.yaml").write_text(json.dumps(asked), encoding="utf-8")
        done = subprocess.run(
            [part("kustomize"), "build", folder], capture_output=True, text=True, check=True
        )
    assert not done.stderr, done.stderr
    return _parsed(done.stdout)


def templated(*cases: ChartCase, chart: Path = CHART) -> list[tuple[Object, ...]]:
    """Render the chart for each case."""
    rendered = []
    for answer in _helm(cases, chart)["answers"]:
        assert "error" not in answer, answer
        texts = [text for path, text in answer["files"].items() if not path.endswith("NOTES.txt")]
        rendered.append(tuple(each for text in texts for each in _parsed(text)))
    return rendered


def refused(*cases: ChartCase) -> list[str]:
    """Why Helm renders none of these cases."""
    return [answer["error"] for answer in _helm(cases, CHART)["answers"]]


def _parsed(text: str) -> tuple[Object, ...]:
    return tuple(each for each in yaml.load_all(text, yaml.CSafeLoader) if each)


def linted() -> list[Object]:
    """What Helm says of the chart: its linter's messages, and its log's of links."""
    said = _helm((), CHART)
    links = [{"log": line} for line in said["log"] if "symbolic link" in line]
    return [*said["lint"], *links]


def _helm(cases: tuple[ChartCase, ...], chart: Path) -> Object:
    if find_spec("helm_python") is None:
        unavailable("Helm's engine has no package for this machine's architecture")
    given = [replace(case, values=IMAGE | case.values) for case in cases]
    asked = {"chart": str(chart), "cases": [asdict(case) for case in given]}
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps(asked),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: Object = json.loads(done.stdout)
    return answer | {"log": done.stderr.splitlines()}


OVERLAYS: Final = tuple(sorted(path.name for path in (DEPLOY / "overlays").iterdir()))
MONITORING: Final = ("podMonitor", "prometheusRule", "dashboards")


def switched_on(*names: str) -> Object:
    return {name: {"enabled": True} for name in names}


# Each component, and the chart's values that give the same.
COMPONENTS: Final[dict[str, Object]] = {
    "networkpolicy": switched_on("networkPolicy"),
    "prometheus-operator": switched_on(*MONITORING),
    "web-config": {"web": {"configSecret": "shadow-pleg-web"}},
    "cri-filter": switched_on("criFilter"),
    "kubelet-pods": switched_on("kubeletPods"),
}
# What is judged: an overlay with components, and the chart's values that give the same.
SAME: Final[dict[str, tuple[tuple[str, ...], Object]]] = {
    **{overlay: ((overlay,), {"runtime": overlay}) for overlay in OVERLAYS},
    **{
        name: (("containerd", name), {"runtime": "containerd", **values})
        for name, values in COMPONENTS.items()
    },
    "all": (
        ("openshift", *COMPONENTS),
        {"runtime": "openshift"} | {k: v for each in COMPONENTS.values() for k, v in each.items()},
    ),
}
_CHANGED: Final[Object] = yaml.safe_load(
    (ROOT / "tests" / "deploy" / "chart.yaml").read_text(encoding="utf-8")
)["changed"]
CASES: Final = {
    **{
        f"helm/{name}": ChartCase({**values, "namespace": {"create": True}})
        for name, (_, values) in SAME.items()
    },
    "helm/changed": ChartCase(_CHANGED, "event-watch", "observers"),
}
VARIANTS: Final = (*(f"kustomize/{name}" for name in SAME), *CASES)


@functools.cache
def _templated() -> dict[str, tuple[Object, ...]]:
    return dict(zip(CASES, templated(*CASES.values()), strict=True))


@dataclass(frozen=True, slots=True)
class Variant:
    """One of VARIANTS, rendered."""

    name: str
    objects: tuple[Object, ...]

    def of(self, kind: str) -> list[Object]:
        return [each for each in self.objects if each["kind"] == kind]

    def only(self, kind: str) -> Any:
        (found,) = self.of(kind)
        return found

    @property
    def pod(self) -> Any:
        return self.only("DaemonSet")["spec"]["template"]["spec"]

    @property
    def container(self) -> Any:
        """The exporter's container; the only one, but for the filter's."""
        container, *others = self.pod["containers"]
        assert container["name"] == "shadow-pleg"
        assert {each["name"] for each in others} <= {"filter", "kubelet-pods"}
        assert "initContainers" not in self.pod
        return container

    @property
    def filter(self) -> Any:
        return self._beside("filter")

    @property
    def pods_filter(self) -> Any:
        """The one that passes on the kubelet's pods, if there is one."""
        return self._beside("kubelet-pods")

    def _beside(self, name: str) -> Any:
        return next((each for each in self.pod["containers"] if each["name"] == name), None)

    @property
    def config(self) -> Config:
        command, *flags = self.container["args"]
        assert command == "serve"
        pairs = [flag.split("=", 1) for flag in flags]
        assert len(dict(pairs)) == len(pairs)
        fields = {each.flag: each.name for each in flags_of(Config)}
        given = {fields[flag]: text for flag, text in pairs}
        return from_text(Config, given, environ_of(self.container))


def environ_of(container: Object) -> dict[str, str]:
    """The variables whose text the manifest has, as the kubelet fills them in."""
    given = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    address = (("[$(HOST_IP)]", "[fd00::1]"), ("$(HOST_IP)", "192.0.2.1"))
    for name, place in product(given, address):
        given[name] = given[name].replace(*place)
    return given


def bytes_of(quantity: str) -> int:
    """Of memory, in mebibytes as the manifests have it."""
    assert quantity.endswith("Mi"), quantity
    return int(quantity.removesuffix("Mi")) << 20


@functools.cache
def variant(name: str) -> Variant:
    if name.startswith("kustomize/"):
        parts, _ = SAME[name.removeprefix("kustomize/")]
        return Variant(name, kustomized(*parts))
    return Variant(name, _templated()[name])


def with_kind(kind: str) -> list[Variant]:
    found = [each for each in map(variant, VARIANTS) if each.of(kind)]
    assert {each.name.partition("/")[0] for each in found} == {"kustomize", "helm"}
    return found


def _with_helm(asked: Object) -> Object:
    """What Helm's own engine makes of each case, or without one its linter's messages.

    In a process of its own, because the engine brings another language's runtime and its signal
    handlers.
    """
    helm: Any = import_module("helm_python")
    answers: list[Object] = []
    with helm.Chart.load(asked["chart"]) as chart:
        for case in asked["cases"]:
            try:
                files = chart.render(case["values"], name=case["name"], namespace=case["namespace"])
                answers.append({"files": files})
            except helm.HelmError as error:
                answers.append({"error": str(error)})
    # Its linter takes as long as all of that.
    found = [] if answers else helm.lint(asked["chart"], strict=True)["messages"]
    return {"lint": found, "answers": answers}


if __name__ == "__main__":
    json.dump(_with_helm(json.load(sys.stdin)), sys.stdout)
