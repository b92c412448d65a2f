"""What files hold: recordings, and the web configuration."""

import contextlib
import functools
import io
from collections.abc import Iterator
from typing import Final

from exporter.commands.options import AnswerFormat, ReplayOptions
from exporter.commands.replay import replay
from exporter.errors import ConfigError
from exporter.recording.gzip_members import member, members

# Imported late by the policy: here, so that a search sees into them.
from exporter.web.access import tls, web_config  # noqa: F401
from exporter.web.access.policy import WebPolicy
from exporter.web.refusals import WebState
from tests import ROOT
from tests.fuzz.judging import Target, folder, only, require_printable
from tests.support.secured import MTLS, TLS, WebFiles
from tests.support.tape import STORY, in_blocks, recording_of


def _recording(data: bytes) -> bool:
    """As it is, and as the text of a recording whose compression is right."""
    return _replayed(data) | _replayed(member(data))


def _replayed(content: bytes) -> bool:
    path = folder() / "recording.gz"
    path.write_bytes(content)
    # Templates take longer than all else.
    form = AnswerFormat.JSON if len(content) % 8 else AnswerFormat.TEXT
    complete = False
    with only(ConfigError), contextlib.redirect_stdout(io.StringIO()) as out:
        complete = replay(path, ReplayOptions(output_format=form))
        replay(path, ReplayOptions(explain="c1", output_format=form))
    require_printable(out.getvalue())
    return complete


def _recording_seeds() -> Iterator[bytes]:
    data, _ = recording_of(folder() / "seed.gz", *STORY)
    yield data
    yield in_blocks(data)
    yield b"".join(text for _, text in members(io.BytesIO(data)))


def _web_config(data: bytes) -> bool:
    files = _web_files()
    files.config.write_bytes(data)
    with contextlib.suppress(ConfigError):
        WebPolicy(str(files.config), WebState())
        return True
    return False


@functools.cache
def _web_files() -> WebFiles:
    return WebFiles(folder())


def _web_seeds() -> Iterator[bytes]:
    yield (ROOT / "docs" / "web-config.example.yml").read_bytes()
    yield TLS.encode()
    yield MTLS.encode() + b"  client_allowed_sans: [a, b]\n  min_version: TLS13\n"
    yield b"http_server_config: {http2: &a [x, yes], headers: {X-Frame-Options: *a}}\n"
    yield b"basic_auth_users:\n  a: $2b$04$abcdefghijklmnopqrstuu5cldSTjqTa.nw4QeJC5.F6G/ueChgIa\n"


TARGETS: Final = {
    "recording": Target(_recording, _recording_seeds),
    "web-config": Target(_web_config, _web_seeds),
}
