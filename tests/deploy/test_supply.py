"""What the image is made of: nothing that no hash names, and a statement that can be checked."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.image import wheels
from exporter import HOME, __version__
from testbed import debian
from testbed.mirror import FetchError
from tests import ROOT
from tests.deploy.test_lock import lock
from tests.deploy.test_schemas import SCHEMAS
from tests.support.bundle import IMAGE, built, image_config

# Both build in the checkout, so they take turns.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("tests/deploy/test_image.py")]

_KEPT: Final = ROOT / ".cache" / "image"
_REVISION: Final = "org.opencontainers.image.revision"


@pytest.fixture(scope="module")
def tools() -> Path:
    """The wheels of the build's tools, by their hashes."""
    debian.fetch_parts(["pip"])
    return wheels.fetched(wheels.TOOLS, _KEPT / "tools")


@pytest.fixture
def _no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked of an index fails."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")


@pytest.mark.usefixtures("_no_index")
def test_our_wheel_is_built_by_the_locked_tool_without_an_index(
    tmp_path: Path, tools: Path
) -> None:
    """So nothing can be fetched and run that is not in the lock; and it works for its readers."""
    wheels.build_own(tools, tmp_path, "86400")
    (made,) = tmp_path.glob("shadow_pleg-*.whl")
    installed = tmp_path / "installed"
    shutil.unpack_archive(made, installed, "zip")
    (about,) = installed.glob("*.dist-info")
    generator = re.search(
        r"^Generator: setuptools \((.+)\)$", (about / "WHEEL").read_text(), re.MULTILINE
    )
    version, _ = lock("build-requirements.lock")["setuptools"]
    assert generator
    assert generator[1] == version
    commit = wheels.run("git", "rev-parse", "HEAD")
    assert (installed / "exporter/commit.txt").read_text() == f"{commit}\n"
    _assert_each_link_works_alone((about / "METADATA").read_text())
    _assert_rules_can_be_written(installed, tmp_path)


def _assert_each_link_works_alone(page: str) -> None:
    """A package index shows the README, and none of the files that it links to."""
    links = re.findall(r'(?:\]\(|src="|srcset=")([^)"]+)', page)
    at_home = [link for link in links if link.startswith(f"{HOME}/")]
    assert {link for link in links if not re.match(r"https://|#", link)} == set()
    paths = [re.sub(rf"^{HOME}/(blob|raw)/v{__version__}/|#.*", "", link) for link in at_home]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert sum(path.endswith(".png") for path in paths) == 3


def _assert_rules_can_be_written(installed: Path, folder: Path) -> None:
    """`python -m alerts`, as alerts/README.md says."""
    command = [sys.executable, "-m", "alerts", "--output", str(folder)]
    env = os.environ | {"PYTHONPATH": str(installed)}
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)
    name = "prometheusrule.yaml"
    assert (folder / name).read_bytes() == (ROOT / "alerts" / name).read_bytes()


@pytest.mark.usefixtures("_no_index")
def test_a_tool_that_was_changed_is_refused(tmp_path: Path, tools: Path) -> None:
    """One byte more in the kept file is enough."""
    changed, made = tmp_path / "tools", tmp_path / "made"
    shutil.copytree(tools, changed)
    (wheel,) = changed.glob("setuptools-*.whl")
    with wheel.open("ab") as file:
        file.write(b"x")
    with pytest.raises(FetchError):
        wheels.build_own(changed, made, "86400")
    assert not made.exists()


@pytest.fixture(scope="module")
def statement() -> Any:  # noqa: ANN401 - parsed JSON
    """The provenance that the build wrote."""
    built()
    return json.loads((IMAGE / "provenance.json").read_text())


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _materials(statement: Any) -> list[Any]:  # noqa: ANN401 - parsed JSON
    found: list[Any] = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    return found


def test_the_provenance_is_a_statement_of_in_toto(statement: Any) -> None:  # noqa: ANN401 - parsed JSON
    """With SLSA's predicate; every digest is one."""
    import jsonschema  # noqa: PLC0415 - takes 2 s, in each process that collects tests

    schema = json.loads((SCHEMAS / "provenance.json").read_text())
    jsonschema.validate(statement, schema, jsonschema.Draft202012Validator)


def test_the_provenance_names_what_was_made(statement: Any) -> None:  # noqa: ANN401 - parsed JSON
    """The archive, the image and its layer as they are in it, and the bill of materials."""
    made = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    archive = IMAGE / "shadow-pleg.tar"
    with tarfile.open(archive) as tar:

        def inside(name: str) -> bytes:
            file = tar.extractfile(name)
            assert file is not None
            return file.read()

        (image,) = json.loads(inside("manifest.json"))
        (layer,) = image["Layers"]
        digests = {
            name: hashlib.sha256(inside(name)).hexdigest() for name in (image["Config"], layer)
        }
    assert made == {
        "shadow-pleg.tar": _sha256(archive),
        f"localhost/shadow-pleg:{__version__}": digests[image["Config"]],
        "layer": digests[layer],
        "sbom.cdx.json": _sha256(IMAGE / "sbom.cdx.json"),
    }


def test_the_provenance_names_all_that_the_bill_has(statement: Any) -> None:  # noqa: ANN401 - parsed JSON
    """Each library by a hash that the lock has, each package, and nothing that no lock names."""
    materials = _materials(statement)
    by_uri = {each["uri"]: each for each in materials if "uri" in each}
    bill = json.loads((IMAGE / "sbom.cdx.json").read_text())["components"]
    # What the status page ships of others is part of the checkout.
    purls = {each["purl"] for each in bill if not each["purl"].startswith("pkg:npm/")}
    assert purls <= set(by_uri)
    locked = {
        f"pkg:pypi/{name}@{version}"
        for file in ("requirements.lock", "build-requirements.lock")
        for name, (version, _) in lock(file).items()
    }
    of_index = {uri for uri in by_uri if uri.startswith("pkg:pypi/")}
    assert of_index == locked
    hashes = wheels.LIBRARIES.read_text() + wheels.TOOLS.read_text()
    for uri in of_index:
        assert f"--hash=sha256:{by_uri[uri]['digest']['sha256']}" in hashes, uri


def test_the_provenance_names_the_commit_and_the_base(statement: Any) -> None:  # noqa: ANN401 - parsed JSON
    """The commit is the one on the image's label; the base is the archive it was made from."""
    by_name = {each["name"]: each for each in _materials(statement) if "name" in each}
    revision = image_config()["Labels"][_REVISION]
    assert by_name["commit"]["digest"] == {"gitCommit": revision}
    assert by_name["files"]["digest"] == {"sha256": (IMAGE / "fingerprint").read_text()}
    assert by_name["base"]["digest"] == {"sha256": (_KEPT / "base.sha256").read_text()}
    for tool in ("buildah", "mmdebstrap", "runc", "pip"):
        path = debian.find(tool)
        assert path is not None
        assert by_name[path.name]["digest"] == {"sha256": _sha256(path)}
