"""Objects as kustomize and Helm render them: the real ones, without a cluster."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import yaml

from tests import ROOT
from tests.support.real.fixtures import part, unavailable

DEPLOY: Final = ROOT / "deploy"
CHART: Final = DEPLOY / "helm" / "shadow-pleg"

Object = dict[str, Any]


class ChartError(Exception):
    """Helm would not render; the message is Helm's."""


@dataclass(frozen=True, slots=True)
class ChartCase:
    """One way to render the chart."""

    values: Object = field(default_factory=dict)
    name: str = "shadow-pleg"
    namespace: str = "shadow-pleg"


@functools.cache
def kustomized(folder: Path) -> tuple[Object, ...]:
    """Build one overlay."""
    done = subprocess.run(
        [part("kustomize"), "build", folder], capture_output=True, text=True, check=True
    )
    assert not done.stderr, done.stderr
    return _parsed(done.stdout)


def templated(*cases: ChartCase) -> list[tuple[Object, ...]]:
    """Render the chart for each case; ChartError for the first that Helm refuses."""
    rendered = []
    for answer in _helm(cases)["answers"]:
        if "error" in answer:
            raise ChartError(answer["error"])
        texts = [text for path, text in answer["files"].items() if not path.endswith("NOTES.txt")]
        rendered.append(tuple(each for text in texts for each in _parsed(text)))
    return rendered


def _parsed(text: str) -> tuple[Object, ...]:
    # libyaml's: ten times as fast as the one in Python.
    return tuple(each for each in yaml.load_all(text, yaml.CSafeLoader) if each)


def linted() -> list[Object]:
    """What Helm's own linter says of the chart: its messages."""
    return list(_helm(())["lint"])


def _helm(cases: tuple[ChartCase, ...]) -> Object:
    if find_spec("helm_python") is None:
        unavailable("Helm's engine has no package for this machine's architecture")
    asked = {"chart": str(CHART), "cases": [asdict(case) for case in cases]}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.helm_render"],
        input=json.dumps(asked),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: Object = json.loads(done.stdout)
    return answer


def only(objects: tuple[Object, ...], kind: str) -> Object:
    """The one object of that kind."""
    (found,) = (each for each in objects if each["kind"] == kind)
    return found
