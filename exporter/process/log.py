"""The log: logfmt or JSON lines on stderr, rate-limited by kind."""

import logging
import os
import select
import time
from collections import defaultdict
from collections.abc import Hashable
from functools import partial
from typing import Final, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor

from exporter.errors import printable
from exporter.settings.config import LogFormat, LogLevel
from exporter.timing import Bucket

_STDERR: Final = 2
_LINES_PER_SECOND: Final = 0.2
_BURST: Final = 20.0
_FIRST: Final = ("ts", "level", "msg")


class Lines:
    """Writes whole lines to stderr; drops and counts lines that its reader does not take at once.

    A log without a reader must not stop or end this process. Stderr stays blocking, because other
    processes may share it.
    """

    def __init__(self) -> None:
        self.dropped = 0
        # Whether the last line was written only in part.
        self._broken = False
        self._poll = select.poll()
        self._poll.register(_STDERR, select.POLLOUT)

    def write(self, text: str) -> None:
        """Write the text, which ends with a line break."""
        data = text.encode("utf-8", "backslashreplace")
        if self._broken:
            data = b"\n" + data
        try:
            for at in range(0, len(data), select.PIPE_BUF):
                # A pipe that is ready takes PIPE_BUF bytes at once.
                if not self._poll.poll(0):
                    raise BlockingIOError
                os.write(_STDERR, data[at : at + select.PIPE_BUF])
                self._broken = at + select.PIPE_BUF < len(data)
        except OSError:
            self.dropped += 1

    def flush(self) -> None:
        """Do nothing: no text is buffered here."""


class _Limit:
    """Limits the lines of each kind; the next written line says how many were withheld."""

    def __init__(self) -> None:
        self._kinds: defaultdict[Hashable, Bucket] = defaultdict(
            partial(Bucket, _LINES_PER_SECOND, _BURST)
        )
        self._withheld = 0

    def own(self, _logger: object, _method: str, fields: EventDict) -> EventDict:
        """A processor for this package's lines: a line's kind is its text, and a loss's cause."""
        if not self._admits(fields["event"], fields.get("cause")):
            raise structlog.DropEvent
        return fields

    def foreign(self, record: logging.LogRecord) -> bool:
        """A filter for the lines of libraries: a line's kind is its place in the code."""
        return self._admits(record.pathname, record.lineno)

    def count(self, _logger: object, _method: str, fields: EventDict) -> EventDict:
        """A processor that adds the number of withheld lines to a line that is written."""
        if self._withheld:
            fields["lines_withheld"] = self._withheld
            self._withheld = 0
        return fields

    def _admits(self, *kind: Hashable) -> bool:
        if self._kinds[kind].spend(time.monotonic()):
            return True
        self._withheld += 1
        return False


# A process has one stderr.
LINES: Final = Lines()


def set_up_log(level: LogLevel, form: LogFormat) -> None:
    """Send this package's lines, and library warnings, to stderr in one format."""
    limit = _Limit()
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", key="ts"),
        structlog.processors.format_exc_info,
        # structlog stores the text as `event`. One of our own log fields has the same name: callers
        # pass it as `_event`.
        structlog.processors.EventRenamer("msg", replace_by="_event"),
        _printable,
        limit.count,
    ]
    renderer: Processor = structlog.processors.JSONRenderer()
    if form is LogFormat.LOGFMT:
        renderer = structlog.processors.LogfmtRenderer(key_order=_FIRST, bool_as_flag=False)
    structlog.configure(
        processors=[limit.own, *shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.value.upper()]
        ),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", LINES)),
    )
    handler = logging.StreamHandler(LINES)
    handler.addFilter(limit.foreign)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def _printable(_logger: object, _method: str, fields: EventDict) -> EventDict:
    """Runtime strings are shown to people: keep control characters away from their terminals."""
    return {
        # The renderers escape line breaks themselves.
        key: printable(value, keep="\n") if isinstance(value, str) else value
        for key, value in fields.items()
    }
