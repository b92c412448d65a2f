"""Every object against Kubernetes' schemas of many releases, and fields of the operators' own.

Kubernetes' come with kubernetes-validate, in their strict form: an unknown field is an error. What
the operators know is listed in policy.yaml.
"""

import functools
import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests import table
from tests.support.rendering import CHART, VARIANTS, Object, variant

# From the oldest that the chart takes to the newest there are.
RELEASES: Final = ("1.25", "1.29", "1.33", "1.34", "1.35", "1.36", "1.37")
# These came with 1.30. Without them the runtime's default profile applies, and mounts below ours
# keep their own flags: docs/deploy.md.
NEWER: Final = ("appArmorProfile", "recursiveReadOnly")
BEFORE: Final = ("1.25", "1.29")
# What the operators know, of the fields that we use.
OTHERS: Final[dict[str, str]] = table(__file__, "policy.yaml")["fields"]
# The same in all; their own names are anybody's.
METADATA: Final = (
    "apiVersion kind metadata.name metadata.namespace metadata.labels metadata.annotations"
)
FREE: Final = ("labels", "annotations", "matchLabels")


@functools.cache
def _of(kind: str = "") -> list[Object]:
    """What is in all variants together, each once: of that kind, or of Kubernetes' own."""
    objects = (each for name in VARIANTS for each in variant(name).objects)
    distinct = {json.dumps(each, sort_keys=True): each for each in objects}.values()
    found = [each for each in distinct if kind == (each["kind"] if each["kind"] in OTHERS else "")]
    assert found
    return found


def test_the_oldest_release_is_the_charts() -> None:
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
    import kubernetes_validate  # noqa: PLC0415 - as above

    for each in _of():
        if release in BEFORE:
            each = _without(each)  # noqa: PLW2901 - the rest of it
        assert kubernetes_validate.validate(each, release, strict=True) == release


def _without(value: object) -> Any:
    """The object without the fields that are newer, as such an API server keeps it."""
    if isinstance(value, dict):
        return {key: _without(each) for key, each in value.items() if key not in NEWER}
    return [_without(each) for each in value] if isinstance(value, list) else value


def _fields(value: object, *path: str) -> Iterator[str]:
    if isinstance(value, dict) and not (path and path[-1] in FREE):
        for name, each in value.items():
            yield from _fields(each, *path, name)
    elif isinstance(value, list) and value:
        for each in value:
            yield from _fields(each, *path)
    else:
        yield ".".join(path[-2:])


@pytest.mark.parametrize("kind", OTHERS)
def test_the_operators_know_every_field(kind: str) -> None:
    """Those of objects that Kubernetes itself does not know; a misspelt one would do nothing."""
    known = {*METADATA.split(), *OTHERS[kind].split()}
    for each in _of(kind):
        assert set(_fields(each)) <= known
