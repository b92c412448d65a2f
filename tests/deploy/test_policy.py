"""What a security review asks of the pods, asked of every way to render them.

Levels of Pod Security: https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from __future__ import annotations

import json
import re
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pytest

from exporter.cri.client import WINDOW
from exporter.loops.intake import QUEUE_BYTES
from exporter.settings.config import Config, KubeletTls
from exporter.settings.declaring import flags_of, from_text
from tests.support.rendering import Object, only
from tests.support.variants import VARIANTS, variant

_MIB: Final = 1024 * 1024
# Resident at its peak with 5 000 pods.
_PEAK: Final = 135 * _MIB
_PROBES: Final = ("startupProbe", "livenessProbe", "readinessProbe")
# A frozen subscriber is ended within this time: docs/how-it-works.md.
_FROZEN: Final = 12

every = pytest.mark.parametrize("name", VARIANTS)


def _pod(name: str) -> Any:  # noqa: ANN401 - a parsed manifest
    return only(variant(name), "DaemonSet")["spec"]["template"]["spec"]


def _container(name: str) -> Any:  # noqa: ANN401 - a parsed manifest
    (container,) = _pod(name)["containers"]
    assert "initContainers" not in _pod(name)
    return container


def _flags(name: str) -> dict[str, str]:
    command, *flags = _container(name)["args"]
    assert command == "serve"
    # As the kubelet fills it in.
    flags = [flag.replace("[$(HOST_IP)]", "[fd00::1]") for flag in flags]
    flags = [flag.replace("$(HOST_IP)", "192.0.2.1") for flag in flags]
    assert len({flag.partition("=")[0] for flag in flags}) == len(flags)
    return dict(flag.removeprefix("--").split("=", 1) for flag in flags)


def _config(name: str) -> Config:
    fields = {s.flag.removeprefix("--"): s.name for s in flags_of(Config)}
    return from_text(Config, {fields[flag]: text for flag, text in _flags(name).items()})


def _bytes(quantity: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi)", quantity).groups()  # type: ignore[union-attr]
    return int(number) * {"Mi": _MIB, "Gi": 1024 * _MIB}[unit]


@every
def test_no_access_to_the_kubernetes_api(name: str) -> None:
    """No token or role but that for the kubelet, no address of a service in the environment."""
    account = only(variant(name), "ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    assert _pod(name)["serviceAccountName"] == account["metadata"]["name"]
    assert _pod(name)["automountServiceAccountToken"] is False
    assert _pod(name)["enableServiceLinks"] is False
    if not _config(name).kubelet_metrics_url:
        assert not any("Role" in each["kind"] for each in variant(name))
        assert "serviceAccountToken" not in json.dumps(_pod(name))


def test_the_token_for_the_kubelet_reads_metrics_and_nothing_else() -> None:
    """One verb on one resource, bound to this account alone; short-lived, and of use to us."""
    found = _beside("ClusterRole")
    assert {name.partition("/")[0] for name, *_ in found} == {"kustomize", "helm"}
    for name, role, pod in found:
        assert role["rules"] == [
            {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]}
        ]
        binding = only(variant(name), "ClusterRoleBinding")
        assert binding["roleRef"]["name"] == role["metadata"]["name"]
        (subject,) = binding["subjects"]
        account = only(variant(name), "ServiceAccount")["metadata"]
        assert (subject["kind"], subject["name"]) == ("ServiceAccount", account["name"])
        assert subject["namespace"] == account["namespace"]
        _holds_a_short_token(_config(name), pod)


def _holds_a_short_token(config: Config, pod: Object) -> None:
    (volume,) = (each for each in pod["volumes"] if "projected" in each)
    token, authority = volume["projected"]["sources"]
    assert volume["projected"]["defaultMode"] == 0o440
    # The API server's own audience: kubelets take no other.
    assert token["serviceAccountToken"] == {"path": "token", "expirationSeconds": 3600}
    assert authority["configMap"]["name"] == "kube-root-ca.crt"
    (mount,) = (
        each for each in pod["containers"][0]["volumeMounts"] if each["name"] == volume["name"]
    )
    folder = Path(mount["mountPath"])
    assert config.kubelet_token_file == folder / "token"
    verified = config.kubelet_tls is KubeletTls.VERIFY
    assert config.kubelet_ca_file == (folder / "ca.crt" if verified else None)
    assert config.kubelet_metrics_url.startswith("https://")


@every
def test_nothing_of_the_node_but_the_sockets_folder(name: str) -> None:
    """No host namespace, no port of the node, one hostPath, read-only; else secrets of our own."""
    pod = _pod(name)
    for space in ("hostNetwork", "hostPID", "hostIPC"):
        assert pod[space] is False
    assert not any("hostPort" in port for port in _container(name)["ports"])
    runtime, *others = pod["volumes"]
    assert {key for each in others for key in each} <= {"name", "secret", "projected"}
    assert len(others) <= 2
    socket = _config(name).runtime_endpoint
    assert socket is not None
    folder = str(socket.parent)
    assert runtime == {"name": "runtime", "hostPath": {"path": folder, "type": "Directory"}}
    # Never the root of the node, nor all of /run, where other sockets are.
    assert PurePosixPath(folder).parts[:2] == ("/", "run")
    assert len(PurePosixPath(folder).parts) > len(("/", "run"))


@every
def test_all_mounts_are_read_only_and_the_runtimes_own_are_not_held(name: str) -> None:
    """A private copy of the folder's mounts would keep removed containers' file systems alive."""
    mounts = _container(name)["volumeMounts"]
    assert all(mount["readOnly"] is True for mount in mounts)
    (runtime,) = (mount for mount in mounts if mount["name"] == "runtime")
    assert runtime["mountPropagation"] == "HostToContainer"
    assert runtime["mountPath"] == _pod(name)["volumes"][0]["hostPath"]["path"]


@every
def test_it_runs_as_nobody_with_the_sockets_group(name: str) -> None:
    """65532:0, and no way to become more."""
    of_pod, of_container = _pod(name)["securityContext"], _container(name)["securityContext"]
    assert of_pod["runAsUser"] == 65532
    assert of_pod["runAsGroup"] == 0
    assert "fsGroup" not in of_pod
    assert of_pod["runAsNonRoot"] is of_container["runAsNonRoot"] is True
    assert of_container["allowPrivilegeEscalation"] is False
    assert of_container["privileged"] is False
    assert of_container["readOnlyRootFilesystem"] is True
    assert of_container["capabilities"] == {"drop": ["ALL"]}
    assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"seccompProfile", "runAsUser", "runAsGroup"} & set(of_container)


@every
def test_the_cpu_has_a_request_and_no_limit(name: str) -> None:
    """A throttled reader presses back on the runtime."""
    resources = _container(name)["resources"]
    assert set(resources["limits"]) == {"memory"}
    assert set(resources["requests"]) == {"cpu", "memory"}


@every
def test_the_memory_limit_is_above_every_bound_of_our_own(name: str) -> None:
    """A full node at its peak, a full window and a full queue fit."""
    resources = _container(name)["resources"]
    assert _bytes(resources["limits"]["memory"]) > _PEAK + WINDOW + QUEUE_BYTES
    assert _bytes(resources["requests"]["memory"]) >= 63 * _MIB


@every
def test_a_frozen_process_is_ended_in_time(name: str) -> None:
    """By the liveness probe, and at once: what is stopped does not hear SIGTERM."""
    probe = _container(name)["livenessProbe"]
    assert probe["httpGet"]["path"] == "/livez"
    assert probe["timeoutSeconds"] <= 2
    assert probe["periodSeconds"] * probe["failureThreshold"] + probe["timeoutSeconds"] <= _FROZEN
    assert probe["terminationGracePeriodSeconds"] == 1
    assert "initialDelaySeconds" not in probe


@every
def test_a_slow_start_is_no_failure_and_readiness_never_restarts(name: str) -> None:
    """The startup probe waits for a minute; readiness looks at the lists' age."""
    container = _container(name)
    startup = container["startupProbe"]
    assert startup["httpGet"]["path"] == "/livez"
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 60
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


@every
def test_the_probes_ask_where_the_process_answers(name: str) -> None:
    """By the name of a port that the flags open, and without TLS only where there is none."""
    config, container = _config(name), _container(name)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    opened = {"http": config.web_listen_address.port}
    if config.web_probe_address:
        opened["probes"] = config.web_probe_address.port
    assert ports == opened
    asked = "probes" if config.web_config_file else "http"
    for probe in _PROBES:
        assert container[probe]["httpGet"]["port"] == asked
        assert container[probe]["httpGet"]["scheme"] == "HTTP"


@every
def test_every_node_and_ahead_of_other_pods(name: str) -> None:
    """Whatever its taints say; a few nodes at a time, and never two on a node."""
    daemonset = only(variant(name), "DaemonSet")
    pod = _pod(name)
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["priorityClassName"] == "system-node-critical"
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux"}
    update = daemonset["spec"]["updateStrategy"]
    assert update["type"] == "RollingUpdate"
    assert update["rollingUpdate"]["maxSurge"] == 0
    assert update["rollingUpdate"]["maxUnavailable"] in ("10%", 1)
    assert pod["terminationGracePeriodSeconds"] <= 5


@every
def test_the_flags_are_those_of_serve(name: str) -> None:
    """The program itself reads them; the node's name and address come from outside the API."""
    wanted = {"NODE_NAME": "spec.nodeName"}
    if _config(name).kubelet_metrics_url:
        wanted["HOST_IP"] = "status.hostIP"
    env = _container(name)["env"]
    assert {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in env} == wanted


@every
def test_all_objects_are_labelled(name: str) -> None:
    """With the recommended labels; the pods that are selected are ours."""
    recommended = ("name", "instance", "version", "component", "part-of", "managed-by")
    for each in variant(name):
        assert {f"app.kubernetes.io/{label}" for label in recommended} <= set(
            each["metadata"]["labels"]
        )
    spec = only(variant(name), "DaemonSet")["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


@every
def test_all_objects_are_in_one_namespace(name: str) -> None:
    """But for those that are in none."""
    nowhere = {"Namespace", "SecurityContextConstraints", "ClusterRole", "ClusterRoleBinding"}
    assert len({o["metadata"]["namespace"] for o in variant(name) if o["kind"] not in nowhere}) == 1
    assert not any("namespace" in o["metadata"] for o in variant(name) if o["kind"] in nowhere)


@every
def test_the_namespace_admits_a_host_path(name: str) -> None:
    """Pod Security has no level between: `baseline` forbids it already."""
    for each in variant(name):
        if each["kind"] == "Namespace":
            labels = each["metadata"]["labels"]
            for mode in ("enforce", "audit", "warn"):
                assert labels[f"pod-security.kubernetes.io/{mode}"] == "privileged"
            break
    else:
        assert name.startswith("helm/")


@every
def test_the_image_is_named_exactly(name: str) -> None:
    """By version or digest, never by what moves."""
    image = _container(name)["image"]
    assert re.search(r":\d+\.\d+\.\d+$|@sha256:[0-9a-f]{64}$", image)


def _beside(kind: str) -> list[tuple[str, Object, Object]]:
    """Every object of that kind: in which variant, and the pod beside it."""
    return [
        (name, only(variant(name), kind), _pod(name))
        for name in VARIANTS
        if any(each["kind"] == kind for each in variant(name))
    ]


def test_openshift_allows_what_the_pods_do_and_no_more() -> None:
    """In the overlay and in the chart."""
    found = _beside("SecurityContextConstraints")
    assert {name.partition("/")[0] for name, *_ in found} == {"kustomize", "helm"}
    for _, scc, pod in found:
        _allows_just_this(scc, pod)


def test_only_prometheus_may_ask_and_only_a_kubelet_is_asked() -> None:
    """Where there is a NetworkPolicy."""
    found = _beside("NetworkPolicy")
    assert {name.partition("/")[0] for name, *_ in found} == {"kustomize", "helm"}
    for _, policy, pod in found:
        _lets_one_in(policy)
        asks = any("projected" in each for each in pod["volumes"])
        # A node's address is known to no policy; its kubelet's port is.
        out = [{"ports": [{"port": 10250, "protocol": "TCP"}]}] if asks else []
        assert policy["spec"]["egress"] == out


def test_what_is_scraped_has_the_labels_that_the_rules_need() -> None:
    """The job's name, and the node's."""
    found = _beside("PodMonitor")
    assert {name.partition("/")[0] for name, *_ in found} == {"kustomize", "helm"}
    for _, monitor, pod in found:
        _gives_the_labels_that_rules_need(monitor, pod)


def _allows_just_this(scc: Object, pod: Object) -> None:
    granted = [key for key, value in scc.items() if key.startswith("allow") and value]
    assert granted == ["allowHostDirVolumePlugin"]
    assert scc["requiredDropCapabilities"] == ["ALL"]
    assert scc["defaultAddCapabilities"] == []
    assert scc["readOnlyRootFilesystem"] is True
    assert scc["runAsUser"] == {"type": "MustRunAs", "uid": pod["securityContext"]["runAsUser"]}
    of_pod = pod["securityContext"]["seLinuxOptions"]
    assert scc["seLinuxContext"] == {"type": "MustRunAs", "seLinuxOptions": of_pod}
    assert scc["seccompProfiles"] == ["runtime/default"]
    assert set(chain.from_iterable(pod["volumes"])) - {"name"} <= set(scc["volumes"])
    asks = any("projected" in each for each in pod["volumes"])
    assert set(scc["volumes"]) == {"hostPath", "secret", *(["projected"] if asks else [])}
    (user,) = scc["users"]
    assert user.endswith(":" + pod["serviceAccountName"])
    assert scc["groups"] == []


def _lets_one_in(policy: Object) -> None:
    spec = policy["spec"]
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    (rule,) = spec["ingress"]
    assert rule["ports"] == [{"port": "http", "protocol": "TCP"}]
    assert all(peer["namespaceSelector"] and peer["podSelector"] for peer in rule["from"])


def _gives_the_labels_that_rules_need(monitor: Object, pod: Object) -> None:
    assert monitor["spec"]["jobLabel"] == "app.kubernetes.io/name"
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] in {port["name"] for port in pod["containers"][0]["ports"]}
    assert endpoint["relabelings"] == [
        {
            "sourceLabels": ["__meta_kubernetes_pod_node_name"],
            "targetLabel": "node",
            "action": "replace",
        }
    ]


def test_grafanas_sidecar_finds_the_dashboards() -> None:
    """By its usual label; and both are whole."""
    variants = [n for n in VARIANTS if any(o["kind"] == "ConfigMap" for o in variant(n))]
    assert {name.partition("/")[0] for name in variants} == {"kustomize", "helm"}
    for name in variants:
        found = [each for each in variant(name) if each["kind"] == "ConfigMap"]
        assert len(found) == 2
        for each in found:
            assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
            ((file, text),) = each["data"].items()
            assert json.loads(text)["uid"] + ".json" == file
