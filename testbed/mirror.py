"""The machine's own Debian mirror, from both formats of apt's sources.

Blind spot: a machine whose apt knows no Debian archive (Ubuntu) is refused.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ETC_APT = Path("/etc/apt")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SUITES = {"bullseye", "bookworm", "trixie", "forky", "sid"} | {
    *("oldoldstable", "oldstable", "stable", "testing", "unstable")
}


class FetchError(Exception):
    """A part could not be fetched; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Mirror:
    """A Debian archive, and the keyring that apt trusts for it ("" for apt's default ones)."""

    uri: str
    signed_by: str


def machine_mirror() -> Mirror:
    """The first Debian archive in the machine's apt sources."""
    for entry in _entries():
        if _is_debian(entry):
            default = str(KEYRING) if KEYRING.is_file() else ""
            return Mirror(entry["uris"].split()[0], entry.get("signed-by") or default)
    raise FetchError(
        f"no Debian archive in {ETC_APT}/sources.list or {ETC_APT}/sources.list.d: "
        "run this on Debian, or add a source of Debian's there"
    )


def _is_debian(entry: dict[str, str]) -> bool:
    signed_by = entry.get("signed-by", "")
    return (
        entry.get("enabled", "yes").lower() not in {"no", "false", "0"}
        and "deb" in entry.get("types", "").split()
        and "main" in entry.get("components", "").split()
        and not SUITES.isdisjoint(entry.get("suites", "").split())
        # Other vendors use Debian's suite names, too, but their own keys.
        and (not signed_by or "debian-archive" in signed_by)
    )


def _entries() -> Iterator[dict[str, str]]:
    """Yield every source as deb822 fields with lower-case names."""
    for path in sorted(ETC_APT.glob("sources.list.d/*.sources")):
        yield from _stanzas(path.read_text())
    for path in (ETC_APT / "sources.list", *sorted(ETC_APT.glob("sources.list.d/*.list"))):
        if path.is_file():
            yield from _lines(path.read_text())


def _stanzas(text: str) -> Iterator[dict[str, str]]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
        joined = re.sub(r"\n[ \t]+", " ", paragraph)
        fields = [line.partition(":") for line in joined.splitlines()]
        yield {name.strip().lower(): value.strip() for name, _, value in fields}


def _lines(text: str) -> Iterator[dict[str, str]]:
    entry = r"^\s*deb\s+(?:\[(?P<options>.*?)\]\s+)?(?P<uris>\S+)\s+(?P<suites>\S+)\s+(?P<main>.+)$"
    for match in re.finditer(entry, text, re.MULTILINE):
        signed_by = re.search(r"signed-by=(\S+)", match["options"] or "")
        yield {
            "types": "deb",
            "uris": match["uris"],
            "suites": match["suites"],
            "components": match["main"].partition("#")[0],
            "signed-by": signed_by[1] if signed_by else "",
        }
