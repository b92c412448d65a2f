"""Every rendering: what a security review asks of the pods, and what Kubernetes takes.

Kubernetes' schemas of many releases come with kubernetes-validate, in their strict form: an unknown
field is an error. What the operators know is listed in policy.yaml.
"""

import functools
import json
import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest

from crifilter.options import FilterOptions
from crifilter.server import MOST_BYTES
from exporter.cri.client import WINDOW
from exporter.loops.intake import QUEUE_BYTES
from exporter.settings.config import Config
from exporter.settings.declaring import flags_of, from_text
from tests import table
from tests.support.rendering import (
    CHART,
    VARIANTS,
    Object,
    Variant,
    bytes_of,
    environ_of,
    variant,
    with_kind,
)

_MIB: Final = 1024 * 1024
# Resident at its peak with 5 000 pods.
_PEAK_BYTES: Final = 137 * _MIB
_FILTERS_PEAK_BYTES: Final = 200 * _MIB
# A frozen subscriber is ended within this time: README.md.
_FROZEN_SECONDS: Final = 12
_HOLDS: Final[dict[str, Any]] = table(__file__, "policy.yaml")
# From the oldest that the chart takes to the newest there are.
(OLDEST,) = re.findall(r'kubeVersion: ">=(.+).0-0"', (CHART / "Chart.yaml").read_text())
RELEASES: Final = (OLDEST, "1.29", "1.33", "1.34", "1.35", "1.36", "1.37")
# These came with 1.30. Without them the runtime's default profile applies, and mounts below ours
# keep their own flags: docs/deploy.md.
NEWER: Final = ("appArmorProfile", "recursiveReadOnly")
BEFORE: Final = (OLDEST, "1.29")
# What the operators know, of the fields that we use.
OTHERS: Final[dict[str, str]] = _HOLDS["fields"]
# The same in all; their own names are anybody's.
METADATA: Final = (
    "apiVersion kind metadata.name metadata.namespace metadata.labels metadata.annotations"
)
FREE: Final = ("labels", "annotations", "matchLabels")


@pytest.fixture(params=VARIANTS)
def it(request: pytest.FixtureRequest) -> Variant:
    return variant(request.param)


def test_the_pod_has_no_power_over_node_or_cluster(it: Variant) -> None:
    assert it.pod | _HOLDS["pod"] == it.pod
    of_pod, of_container = it.pod["securityContext"], it.container["securityContext"]
    wanted = _HOLDS["filteredSecurity" if it.filter else "podSecurity"]
    assert of_pod | wanted == of_pod
    assert of_container | _HOLDS["containerSecurity"] == of_container
    assert not {"fsGroup", "supplementalGroups"} & (set(of_pod) - set(wanted))
    assert not {"seccompProfile", "runAsUser", "runAsGroup"} & set(of_container)
    assert not any("hostPort" in port for port in it.container["ports"])
    account = it.only("ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    assert it.pod["serviceAccountName"] == account["metadata"]["name"]
    assert not any("Role" in each["kind"] for each in it.objects)
    assert "serviceAccountToken" not in json.dumps(it.pod)


def test_no_image_has_a_tag_that_moves(it: Variant) -> None:
    for each in it.pod["containers"]:
        assert re.fullmatch(_HOLDS["image"], each["image"]), each["image"]


@pytest.mark.parametrize("kind", _HOLDS["labels"])
def test_the_labels_that_others_look_for_are_there(kind: str) -> None:
    for each in (each for it in with_kind(kind) for each in it.of(kind)):
        labels = each["metadata"]["labels"]
        assert labels | _HOLDS["labels"][kind] == labels


def test_with_a_filter_only_the_filter_can_open_the_runtimes_socket() -> None:
    for it in (it for it in map(variant, VARIANTS) if it.filter):
        assert it.filter["securityContext"] == _HOLDS["filterSecurity"]
        assert "ports" not in it.filter
        assert it.filter["image"] == it.container["image"]
        mounts = {each["name"]: each for each in it.filter["volumeMounts"]}
        assert set(mounts) == {"runtime", "filter"}
        assert "runtime" not in {each["name"] for each in it.container["volumeMounts"]}
        socket = it.config.runtime_endpoint
        assert socket is not None
        assert mounts["filter"] == {"name": "filter", "mountPath": str(socket.parent)}
        # It reads each of its flags and variables itself.
        fields = {each.flag: each.name for each in flags_of(FilterOptions) + flags_of(Config)}
        flags = [each.split("=", 1) for each in it.filter["args"][1:]]
        given = {fields[flag]: text for flag, text in flags}
        assert from_text(FilterOptions, given).socket == socket
        assert from_text(FilterOptions, given).socket_group == it.pod["securityContext"]["fsGroup"]
        of_runtime = from_text(Config, given, environ_of(it.filter)).runtime_endpoint
        assert of_runtime is None or str(of_runtime).startswith(mounts["runtime"]["mountPath"])
        limit = it.filter["resources"]["limits"]["memory"]
        assert bytes_of(limit) > _FILTERS_PEAK_BYTES + WINDOW + MOST_BYTES


def test_uid_0_has_the_kubelets_socket_and_nothing_else_of_the_node() -> None:
    """In a container without a port, whose only other mount is the memory of its own socket."""
    for it in (it for it in map(variant, VARIANTS) if it.pods_filter):
        passing = it.pods_filter
        assert passing["securityContext"] | _HOLDS["rootSecurity"] == passing["securityContext"]
        assert "ports" not in passing
        volumes = {each["name"]: each for each in it.pod["volumes"]}
        mounts = {each["name"]: each for each in passing["volumeMounts"]}
        assert set(mounts) == {"kubelet-pods", "pods"}
        assert mounts["kubelet-pods"]["readOnly"]
        host = {"path": "/var/lib/kubelet/pods-api", "type": "Directory"}
        assert volumes["kubelet-pods"]["hostPath"] == host
        assert volumes["pods"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Mi"}
        ours = it.config.kubelet_pods_endpoint
        assert passing["args"][1:3] == ["--of=kubelet", f"--socket=unix://{ours}"]
        assert mounts["pods"]["mountPath"] == str(ours.parent)


def test_nothing_of_the_node_but_the_sockets_folder_and_the_cgroups(it: Variant) -> None:
    """Read-only with all that is mounted below: what a thief could write, the node would notice."""
    volumes = {each["name"]: each for each in it.pod["volumes"]}
    mounts = {each["name"]: each for each in it.container["volumeMounts"]}
    runtime = (it.filter or it.container)["volumeMounts"]
    (runtime_mount,) = (each for each in runtime if each["name"] == "runtime")
    of_node = {"runtime": runtime_mount}
    if it.name != "helm/changed":
        of_node["cgroups"] = mounts["cgroups"]
        # Apart from the container's own.
        assert Path(mounts["cgroups"]["mountPath"]) == it.config.cgroup_root
    if "kubelet-pods" in mounts:
        pytest.fail("the exporter has the kubelet's folder")
    for name, mount in of_node.items():
        assert mount["readOnly"]
        assert mount["recursiveReadOnly"] == "IfPossible"
        assert "mountPropagation" not in mount
        # There on every node that it is for: others are made, or keep the pod from starting.
        path = re.sub("^/host(?=/)", "", mount["mountPath"])
        assert volumes[name] == {"name": name, "hostPath": {"path": path, "type": "Directory"}}
    searched = not environ_of(it.filter or it.container)["CONTAINER_RUNTIME_ENDPOINT"]
    assert searched == (volumes["runtime"]["hostPath"]["path"] == "/run") == ("/auto" in it.name)
    assert all(mount["readOnly"] for mount in mounts.values())
    own = {"filter", "kubelet-pods", "pods"}
    rest = [each for name, each in volumes.items() if name not in {*of_node, *own}]
    assert {key for each in rest for key in each} <= {"name", "secret"}


def test_memory_is_limited_above_every_bound_of_our_own_and_the_cpu_is_not(it: Variant) -> None:
    """A full node, window and queue fit; a throttled reader would press back on the runtime."""
    requests, limits = it.container["resources"]["requests"], it.container["resources"]["limits"]
    assert (set(requests), set(limits)) == ({"cpu", "memory"}, {"memory"})
    assert bytes_of(limits["memory"]) > _PEAK_BYTES + WINDOW + QUEUE_BYTES
    assert bytes_of(requests["memory"]) >= 72 * _MIB


def test_a_frozen_process_is_ended_in_time_and_a_slow_start_is_no_failure(it: Variant) -> None:
    """At once by the liveness probe: SIGTERM cannot end a stopped process."""
    alive, start = it.container["livenessProbe"], it.container["startupProbe"]
    assert alive["httpGet"]["path"] == start["httpGet"]["path"] == "/livez"
    assert it.container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    within = alive["periodSeconds"] * alive["failureThreshold"] + alive["timeoutSeconds"]
    assert within <= _FROZEN_SECONDS
    assert alive["timeoutSeconds"] <= 2
    assert alive["terminationGracePeriodSeconds"] == 1
    assert "initialDelaySeconds" not in alive
    assert start["periodSeconds"] * start["failureThreshold"] >= 60


def test_a_long_lease_is_for_what_a_probe_ends(it: Variant) -> None:
    """Each renewal is an error in containerd's log; a frozen filter is ended by the lease alone."""
    assert it.config.stream_lease == (60 if it.filter else 600)


def test_the_probes_ask_where_the_process_answers(it: Variant) -> None:
    """At a port of their own: a flood of the other one, or its TLS, does not end the pod."""
    ports = {port["name"]: port["containerPort"] for port in it.container["ports"]}
    assert it.config.web_probe_address is not None
    listening = it.config.web_listen_address.port, it.config.web_probe_address.port
    assert ports == dict(zip(("http", "probes"), listening, strict=True))
    asked = {"port": "probes", "scheme": "HTTP"}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert it.container[probe]["httpGet"] | asked == it.container[probe]["httpGet"]


def test_openshift_allows_what_the_pods_do_and_no_more() -> None:
    for it in with_kind("SecurityContextConstraints"):
        scc, security = it.only("SecurityContextConstraints"), it.pod["securityContext"]
        uids = [
            each["securityContext"].get("runAsUser", security["runAsUser"])
            for each in it.pod["containers"]
        ]
        ours = {"type": "MustRunAsRange", "uidRangeMin": 65532, "uidRangeMax": 65533}
        assert 0 in uids or set(uids) <= {65532, 65533}
        wanted = _HOLDS["securityContextConstraints"] | {
            "runAsUser": {"type": "RunAsAny"} if 0 in uids else ours,
            "seLinuxContext": {"type": "MustRunAs", "seLinuxOptions": security["seLinuxOptions"]},
        }
        assert scc | wanted == scc
        granted = [key for key, value in scc.items() if key.startswith("allow") and value]
        assert granted == ["allowHostDirVolumePlugin"]
        assert set(chain.from_iterable(it.pod["volumes"])) - {"name"} <= set(scc["volumes"])
        assert set(scc["volumes"]) == {"hostPath", "secret", "emptyDir"}
        (user,) = scc["users"]
        assert user.endswith(":" + it.pod["serviceAccountName"])


def test_only_prometheus_may_ask_and_nothing_is_asked() -> None:
    for it in with_kind("NetworkPolicy"):
        spec = it.only("NetworkPolicy")["spec"]
        assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
        (rule,) = spec["ingress"]
        assert rule["ports"] == _HOLDS["ingressPorts"]
        assert all(peer["namespaceSelector"] and peer["podSelector"] for peer in rule["from"])
        assert spec["egress"] == []


@functools.cache
def _of(kind: str = "") -> list[Object]:
    """What is in all variants together, each once: of that kind, or of Kubernetes' own."""
    objects = (each for name in VARIANTS for each in variant(name).objects)
    distinct = {json.dumps(each, sort_keys=True): each for each in objects}.values()
    found = [each for each in distinct if kind == (each["kind"] if each["kind"] in OTHERS else "")]
    assert found
    return found


@pytest.fixture(scope="module")
def validate() -> Iterator[Callable[..., str]]:
    """Reads its megabytes of schemas once, not for each object."""
    # Takes seconds of CPU to import: not where tests are only collected.
    from kubernetes_validate import utils, validate  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils, "schema_contents", functools.cache(utils.schema_contents))
        yield validate


@pytest.mark.parametrize("release", RELEASES)
def test_kubernetes_takes_every_object(validate: Callable[..., str], release: str) -> None:
    for each in _of():
        kept = _without(each) if release in BEFORE else each
        assert validate(kept, release, strict=True) == release


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
