"""Pseudonyms: names stay comparable within one recording and mean nothing outside it.

A pseudonym is a hash with a random key that is never stored: equal names get equal pseudonyms, and
a name cannot be found by hashing guesses. Times, types and the runtime's name and version are kept.
Blind spot: the rhythm of events may still identify a node to someone who knows it.
"""

import hashlib
import secrets
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, Final

from exporter.model.facts import Fact, ProfileChosen
from exporter.model.findings import Finding

_BYTES: Final = 10
# Cached pseudonyms: a relist names each pod once for each of its containers.
_REMEMBERED: Final = 4096
# The kind of name in each field's texts; a text in any other field raises KeyError.
_KINDS: Final = {
    **dict.fromkeys(("id", "container_id", "sandbox_id"), "id"),
    **dict.fromkeys(("gone", "dead", "frozen", "moved", "killed"), "id"),
    "name": "name",
    "namespace": "namespace",
    **dict.fromkeys(("uid", "pod_uid"), "uid"),
    # The runtime's reason for an exit names no pod, and is kept.
    "reason": "",
}


class Redaction:
    """Replaces names, with one key that exists only as long as this object."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(hashlib.blake2b.MAX_KEY_SIZE)
        self._pseudonym = lru_cache(_REMEMBERED)(self._hashed)

    def fact(self, fact: Fact) -> Fact:
        """The same fact with pseudonyms."""
        if isinstance(fact, ProfileChosen):
            return fact
        redacted: Fact = self._redacted("", fact)
        return redacted

    def finding(self, finding: Finding) -> Finding:
        """The same finding with a pseudonym; its names are not recorded."""
        return finding._replace(container_id=self._pseudonym("id", finding.container_id))

    def _redacted(self, field: str, value: Any) -> Any:  # noqa: ANN401 - of the same type
        if isinstance(value, str):
            kind = _KINDS[field]
            return self._pseudonym(kind, value) if kind else value
        if isinstance(value, tuple):
            if names := getattr(value, "_fields", ()):
                return type(value)(*map(self._redacted, names, value))
            return tuple(self._redacted(field, each) for each in value)
        if is_dataclass(value) and not isinstance(value, type):
            names = [each.name for each in fields(value)]
            return replace(value, **{it: self._redacted(it, getattr(value, it)) for it in names})
        return value

    def _hashed(self, kind: str, text: str) -> str:
        # An empty name means "unknown", which is not secret and must stay empty.
        if not text:
            return text
        person = kind.encode()
        data = text.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(data, digest_size=_BYTES, key=self._key, person=person)
        return f"{kind}-{digest.hexdigest()}"
