"""What the image was made of: an in-toto statement with SLSA's provenance, unsigned.

https://slsa.dev/spec/v1.0/provenance. Blind spot: it is as honest as the machine that made it; who
distributes the image signs it.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from deploy.image.wheels import part

Descriptor = dict[str, object]


@dataclass(frozen=True, slots=True)
class Source:
    """The checkout: its commit, whether files differ from it, and a digest of those files."""

    commit: str
    modified: bool
    files_sha256: str


def sha256(path: Path) -> str:
    """The digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file(path: Path, **more: str) -> Descriptor:
    """A file by its digest."""
    return {"name": path.name, **more, "digest": {"sha256": sha256(path)}}


def wheels(folder: Path) -> list[Descriptor]:
    """Packages of Python's index; the name of a wheel has its name and version."""
    found = []
    for path in sorted(folder.glob("*.whl")):
        name, version, *_ = path.name.split("-")
        name = name.lower().replace("_", "-").replace(".", "-")
        found.append(file(path, uri=f"pkg:pypi/{name}@{version}"))
    return found


def debian_tools(names: Iterable[str]) -> list[Descriptor]:
    """Programs and libraries of Debian's packages that took part in the build."""
    return [file(part(name)) for name in names]


def source(made_from: Source) -> list[Descriptor]:
    """The checkout, twice: by its commit and by its files."""
    modified = {"uncommitted_changes": made_from.modified}
    return [
        {"name": "commit", "digest": {"gitCommit": made_from.commit}, "annotations": modified},
        {"name": "files", "digest": {"sha256": made_from.files_sha256}},
    ]


def packages(bill: Path) -> list[Descriptor]:
    """Debian's packages in the image; their bytes are those of the base."""
    components = json.loads(bill.read_text(encoding="utf-8"))["components"]
    purls = (component["purl"] for component in components)
    return [{"uri": purl} for purl in purls if purl.startswith("pkg:deb/")]


def subjects(work: Path, name: str) -> list[Descriptor]:
    """The archive, the image by the ID that a registry keeps, its layer, and the bill."""
    config = json.loads((work / "config.json").read_text(encoding="utf-8"))
    (layer,) = config["rootfs"]["diff_ids"]
    return [
        file(work / "shadow-pleg.tar"),
        {"name": name, "digest": {"sha256": sha256(work / "config.json")}},
        {"name": "layer", "digest": {"sha256": layer.removeprefix("sha256:")}},
        file(work / "sbom.cdx.json"),
    ]


def statement(made: list[Descriptor], materials: list[Descriptor], version: str) -> str:
    """The statement as JSON."""
    definition = {
        "buildType": "urn:shadow-pleg:make-image:v1",
        "externalParameters": {"version": version},
        "resolvedDependencies": materials,
    }
    predicate = {
        "buildDefinition": definition,
        "runDetails": {"builder": {"id": "urn:shadow-pleg:deploy/image/build"}},
    }
    whole = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": made,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": predicate,
    }
    return json.dumps(whole, indent=2) + "\n"
