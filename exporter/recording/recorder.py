"""Writes every fact that a ledger takes, and its findings, to a file or to stdout.

Earlier facts determine later verdicts, so a file is never rotated: it ends when it is full.
Invariant: a fact costs the event loop one append. A thread encodes, compresses and writes, and a
disk that hangs does not delay the end of the process.
"""

import gzip
import hashlib
import os
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from exporter.errors import ConfigError
from exporter.model.facts import Fact, ProfileChosen
from exporter.model.findings import Finding, Outcome
from exporter.recording.rows import End, Header, Row, fact_rows, found_rows, line_of

# If the process is killed, at most this much text, or this many seconds, are lost.
_MEMBER_BYTES: Final = 64 * 1024
_FLUSH_SECONDS: Final = 1.0
_QUEUE_LENGTH: Final = 50_000
_END_SECONDS: Final = 5.0
# The file contains pod names.
_MODE: Final = 0o600
_STDOUT: Final = 1
_PSEUDONYM_BYTES: Final = 10
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

STOPPED: Final = "stopped"
FULL: Final = "full"

_Piece = Fact | list[Finding]


class Redaction:
    """Pseudonyms: names stay comparable within one recording and mean nothing outside it.

    A pseudonym is a hash with a random key that exists only as long as this object: equal names get
    equal pseudonyms, and a name cannot be found by hashing guesses. Times, types and the runtime's
    name and version are kept. Blind spot: the rhythm of events may still identify a node to someone
    who knows it.
    """

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
        digest = hashlib.blake2b(data, digest_size=_PSEUDONYM_BYTES, key=self._key, person=person)
        return f"{kind}-{digest.hexdigest()}"


def member(text: bytes) -> bytes:
    """The text, compressed to one gzip member."""
    return gzip.compress(text, compresslevel=6, mtime=0)


class Recorder:
    """Listens to a `Chronicle`, and writes to `path`, or to stdout if that is None.

    Raises ConfigError if that cannot be written. `on_end` is called, in another thread, when the
    recording ends by itself.
    """

    def __init__(
        self,
        path: Path | None,
        max_bytes: int,
        header: Header,
        on_end: Callable[[], object],
        *,
        replace: bool = False,
    ) -> None:
        self._max_bytes = max_bytes
        self._on_end = on_end
        self._redaction = Redaction() if header.redacted else None
        self._file = _stdout() if path is None else _made(path, replace=replace)
        self._text = bytearray()
        self._since = 0.0
        self._over = False
        self.why = STOPPED
        # Why the recording is incomplete, if it is.
        self.failure = ""
        # Bytes.
        self.written = 0
        self.facts = 0
        self._line(header)
        self._waiting: queue.Queue[_Piece | None] = queue.Queue(_QUEUE_LENGTH)
        # A daemon thread, so that the interpreter does not wait for it if the disk hangs.
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def hear(self, fact: Fact, outcome: Outcome) -> None:
        """Write the fact, and its findings."""
        self._put(fact)
        if outcome.findings:
            self._put(list(outcome.findings))

    def end(self) -> None:
        """Write what is queued and the last line, and close the file."""
        with suppress(queue.Full):
            self._waiting.put(None, timeout=_END_SECONDS)
            self._thread.join(_END_SECONDS)
        if self._thread.is_alive():
            self.failure = self.failure or "it is written too slowly: the end of it is missing"
            return
        if not self.failure:
            self._line(End(self.why))
            self._flush()
        os.close(self._file)

    def _put(self, piece: _Piece) -> None:
        if self._over:
            return
        try:
            self._waiting.put_nowait(piece)
        except queue.Full:
            self._fail("it is written too slowly for what happens here")

    def _fail(self, why: str) -> None:
        self._over = True
        self.failure = self.failure or why
        self._on_end()

    def _run(self) -> None:
        try:
            self._write()
        except BaseException as error:
            self._fail(f"{error!r}")
            raise

    def _write(self) -> None:
        while True:
            try:
                piece = self._waiting.get(timeout=_FLUSH_SECONDS)
            except queue.Empty:
                self._flush()
                continue
            if piece is None:
                self._flush()
                return
            self._record(piece)

    def _record(self, piece: _Piece) -> None:
        if self._over:
            return
        if isinstance(piece, list):
            findings = [self._redaction.finding(f) for f in piece] if self._redaction else piece
            rows: Iterable[Row] = found_rows(findings)
        else:
            self.facts += 1
            rows = fact_rows(self._redaction.fact(piece) if self._redaction else piece)
        for row in rows:
            self._line(row)
            # Even within a large relist: `replay` holds a whole gzip member in memory.
            if len(self._text) >= _MEMBER_BYTES:
                self._flush()
        if time.monotonic() - self._since >= _FLUSH_SECONDS:
            self._flush()

    def _line(self, row: Row | Header) -> None:
        if not self._text:
            self._since = time.monotonic()
        self._text += line_of(row)

    def _flush(self) -> None:
        if not self._text or self.failure:
            return
        left = member(bytes(self._text))
        self._text.clear()
        try:
            while left:
                written = os.write(self._file, left)
                self.written += written
                left = left[written:]
        except OSError as error:
            self._fail(f"{error.strerror}")
            return
        if self.written >= self._max_bytes and not self._over:
            self._over, self.why = True, FULL
            self._on_end()


def _stdout() -> int:
    if os.isatty(_STDOUT):
        raise ConfigError(
            "--output: stdout is a terminal, and a recording is no text: write it to a file, like"
            " --output - > node.jsonl.gz"
        )
    try:
        # Fails if it is not open for writing.
        os.write(_STDOUT, b"")
        return os.dup(_STDOUT)
    except OSError as error:
        raise ConfigError(f"--output: stdout cannot be written ({error.strerror})") from None


def _made(path: Path, *, replace: bool) -> int:
    try:
        if replace and path.is_file():
            path.unlink()
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    except FileExistsError:
        what = "exists: name a new file, or add --force"
        if not path.is_file():
            what = "is not a regular file: name a new file"
        raise ConfigError(f"--output: {str(path)!r} {what}") from None
    except OSError as error:
        raise ConfigError(
            f"--output: {str(path)!r} cannot be written ({error.strerror}):"
            " name a file in a folder that exists and can"
        ) from None
