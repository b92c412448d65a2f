"""Every object against Kubernetes' schemas of many releases, and the operators' own by ours.

Kubernetes' come with kubernetes-validate, in their strict form: an unknown field is an error. Those
in `schemas/` are written here, of the fields that we use: a new field needs its line there, from
https://prometheus-operator.dev/docs/api-reference/api/ or OpenShift's API reference.
"""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.rendering import CHART, VARIANTS, Object, variant

SCHEMAS: Final = Path(__file__).parent / "schemas"
# From the oldest that the chart takes to the newest there are.
RELEASES: Final = ("1.25", "1.29", "1.33", "1.34", "1.35", "1.36", "1.37")
# Its field came with 1.30; before, the runtime's default profile applies without it.
APPARMOR: Final = "appArmorProfile"
BEFORE_APPARMOR: Final = ("1.25", "1.29")
OTHERS: Final = ("PodMonitor", "PrometheusRule", "SecurityContextConstraints")


@functools.cache
def _distinct() -> dict[str, Object]:
    """What is in all variants together, each once."""
    return {
        json.dumps(each, sort_keys=True): each
        for name in VARIANTS
        for each in variant(name).objects
    }


def _of(kinds: tuple[str, ...], *, among: bool) -> list[Object]:
    found = [each for each in _distinct().values() if (each["kind"] in kinds) == among]
    assert found
    return found


def test_the_oldest_release_is_the_charts() -> None:
    """What the chart claims to fit is what is tested."""
    assert f'kubeVersion: ">={RELEASES[0]}.0-0"' in (CHART / "Chart.yaml").read_text()


@pytest.fixture(scope="module", autouse=True)
def _schemas_read_once() -> Iterator[None]:
    """kubernetes-validate reads megabytes of schemas for each object."""
    # Takes seconds of CPU to import: not where tests are only collected.
    from kubernetes_validate import utils  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils, "schema_contents", functools.cache(utils.schema_contents))
        yield


@pytest.mark.parametrize("release", RELEASES)
def test_kubernetes_takes_every_object(release: str) -> None:
    """All of its fields, with the types that this release has."""
    import kubernetes_validate  # noqa: PLC0415 - as above

    for each in _of(OTHERS, among=False):
        if APPARMOR in json.dumps(each) and release in BEFORE_APPARMOR:
            continue
        assert kubernetes_validate.validate(each, release, strict=True) == release


@pytest.mark.parametrize("kind", OTHERS)
def test_the_operators_take_every_object(kind: str) -> None:
    """Those that Kubernetes itself does not know."""
    import jsonschema  # noqa: PLC0415 - as above

    schema = json.loads((SCHEMAS / f"{kind.lower()}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for each in _of((kind,), among=True):
        jsonschema.validate(each, schema, jsonschema.Draft202012Validator)
