"""Pseudonyms: equal names of one recording get equal pseudonyms, which cannot be guessed by trial.

They are keyed hashes, and the random key is never stored. Times, types and the runtime's name and
version are kept. Blind spot: someone who knows a node may recognize the rhythm of its events.
"""

import hashlib
import secrets
from dataclasses import replace
from functools import lru_cache
from typing import Final

from exporter.model.events import Announcement, Listed, Pod, Status
from exporter.model.facts import (
    Believed,
    CgroupChanged,
    CgroupsRead,
    Fact,
    Inquired,
    Killed,
    Relist,
    Unread,
)
from exporter.model.findings import Finding

_BYTES: Final = 10
# A relist names each pod once for each of its containers.
_REMEMBERED: Final = 4096


class Redaction:
    """One key, created here and discarded with this object."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(hashlib.blake2b.MAX_KEY_SIZE)
        self._pseudonym = lru_cache(_REMEMBERED)(self._hashed)

    def fact(self, fact: Fact) -> Fact:
        """The same fact with pseudonyms."""
        if isinstance(fact, Announcement):
            return fact._replace(
                container_id=self._id(fact.container_id),
                sandbox_id=self._id(fact.sandbox_id),
                pod=self._pod(fact.pod),
            )
        if isinstance(fact, Relist):
            changed = tuple(map(self._listed, fact.changed))
            return replace(fact, changed=changed, gone=tuple(map(self._id, fact.gone)))
        if isinstance(fact, Inquired | Unread):
            return replace(fact, container_id=self._id(fact.container_id))
        if isinstance(fact, CgroupChanged | CgroupsRead | Killed):
            return self._cgroups(fact)
        if isinstance(fact, Believed):
            statuses = tuple(map(self._status, fact.changed))
            gone, pod = tuple(map(self._id, fact.gone)), self._pod(fact.pod) or fact.pod
            return replace(fact, pod=pod, changed=statuses, gone=gone)
        return fact

    def finding(self, finding: Finding) -> Finding:
        """The same finding with a pseudonym; its names are not recorded."""
        return finding._replace(container_id=self._id(finding.container_id))

    def _cgroups(self, fact: CgroupChanged | CgroupsRead | Killed) -> Fact:
        if isinstance(fact, CgroupsRead):
            dead = None if fact.dead is None else tuple(map(self._id, fact.dead))
            return replace(fact, dead=dead, frozen=tuple(map(self._id, fact.frozen)))
        uid = self._pseudonym("uid", fact.pod_uid)
        return replace(fact, container_id=self._id(fact.container_id), pod_uid=uid)

    def _listed(self, item: Listed) -> Listed:
        return item._replace(
            id=self._id(item.id),
            sandbox_id=self._id(item.sandbox_id),
            name=self._pseudonym("name", item.name),
            pod=self._pod(item.pod),
        )

    def _status(self, status: Status) -> Status:
        name = self._pseudonym("name", status.name)
        return status._replace(id=self._id(status.id), name=name)

    def _pod(self, pod: Pod | None) -> Pod | None:
        if pod is None:
            return None
        return Pod(*(self._pseudonym(kind, text) for kind, text in pod._asdict().items()))

    def _id(self, text: str) -> str:
        return self._pseudonym("id", text)

    def _hashed(self, kind: str, text: str) -> str:
        # An empty name means "unknown", which is not secret and must stay empty.
        if not text:
            return text
        person = kind.encode()
        data = text.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(data, digest_size=_BYTES, key=self._key, person=person)
        return f"{kind}-{digest.hexdigest()}"
