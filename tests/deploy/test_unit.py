"""The systemd unit, judged by systemd: its syntax, and what its sandbox leaves open."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from testbed.fixtures import unavailable
from tests.support.rendering import DEPLOY, variant

UNIT: Final = DEPLOY / "systemd" / "shadow-pleg.service"
# Of 100: what is left is the network, the sockets of the node and the user that both need.
_EXPOSURE: Final = 15


def _of_systemd(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        unavailable(f"{name} is missing: apt-get install systemd")
    return found


def _analyzed(*asked: str) -> subprocess.CompletedProcess[str]:
    command = (_of_systemd("systemd-analyze"), *asked)
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _unit() -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    service = UNIT.read_text().partition("[Service]")[2].partition("[Install]")[0]
    for line in service.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            values.setdefault(name, []).append(value)
    return values


def test_systemd_understands_every_line(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/shadow-pleg/bin/python", "/bin/true"))
    done = _analyzed("verify", "--man=no", str(unit))
    assert (done.returncode, done.stderr) == (0, "")


def test_the_sandbox_is_closed() -> None:
    """By systemd's own measure, which fails above the threshold."""
    done = _analyzed("security", "--offline=yes", f"--threshold={_EXPOSURE}", str(UNIT))
    assert done.returncode == 0, done.stdout


def test_the_units_user_is_the_daemonsets(tmp_path: Path) -> None:
    """systemd-sysusers makes it; a number that no user has would end each start (217/USER)."""
    of_pod = variant("kustomize/containerd").pod["securityContext"]
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "group").write_text("root:x:0:\n")
    command = (_of_systemd("systemd-sysusers"), f"--root={tmp_path}", UNIT.with_suffix(".sysusers"))
    subprocess.run(command, check=True, capture_output=True)
    name, _, uid, gid, *_ = (tmp_path / "etc" / "passwd").read_text().split(":")
    assert (_unit()["User"], _unit()["Group"]) == ([name], [gid])
    assert (int(uid), int(gid)) == (of_pod["runAsUser"], of_pod["runAsGroup"])


def test_the_units_sandbox_is_the_daemonsets() -> None:
    it, unit = variant("kustomize/containerd"), _unit()
    assert unit["CapabilityBoundingSet"] == unit["AmbientCapabilities"] == [""]
    assert unit["NoNewPrivileges"] == ["yes"]
    assert unit["ProtectSystem"] == ["strict"]
    assert unit["MemoryMax"][0] + "i" == it.container["resources"]["limits"]["memory"]
    assert not [name for name in unit if name.startswith("CPU")]
    # The node's cgroups stay readable, and become no more than that.
    assert unit["ProtectControlGroups"] == ["yes"]
    assert unit["BindReadOnlyPaths"] == [it.pod["volumes"][0]["hostPath"]["path"]]
    assert unit["ExecStart"] == ["/opt/shadow-pleg/bin/python -OO -m exporter serve"]
