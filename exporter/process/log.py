"""The log: logfmt or JSON lines on stderr, one per event that an operator cares about."""

import logging
import sys
import unicodedata
from typing import Final

import structlog
from structlog.typing import EventDict, Processor

from exporter.settings.config import LogFormat, LogLevel

_FIRST: Final = ("ts", "level", "msg")
# Control and format characters, lone surrogates, line and paragraph separators.
_UNFIT: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def set_up_log(level: LogLevel, form: LogFormat) -> None:
    """Send this package's lines, and library warnings, to stderr in one format."""
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", key="ts"),
        structlog.processors.format_exc_info,
        # structlog's text key is `event`, which is also one of the log fields; that one is passed
        # as `_event`.
        structlog.processors.EventRenamer("msg", replace_by="_event"),
        _printable,
    ]
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if form is LogFormat.JSON
        else structlog.processors.LogfmtRenderer(key_order=_FIRST, bool_as_flag=False)
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.value.upper()]
        ),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )
    handler = logging.StreamHandler(sys.stderr)
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


def printable(text: str, keep: str = "") -> str:
    """The text with unsafe characters escaped, except for those in `keep`."""
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode()
        if unicodedata.category(char) in _UNFIT and char not in keep
        else char
        for char in text
    )
