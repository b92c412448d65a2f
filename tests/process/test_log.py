"""The log: one line for each thing, in a form that machines read back exactly."""

import json
import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.process.log import set_up_log
from exporter.settings.config import LogFormat, LogLevel

pytestmark = [pytest.mark.quick, pytest.mark.usefixtures("borrowed_process")]

# As Go's logfmt reads it: a bare value holds neither control characters nor space, `"` or `=`. Here
# it holds no backslash either, which might be an escape.
PAIR = re.compile(r'(?P<key>[^\0- ="]+)=(?P<value>"(?:[^"\\]|\\.)*"|[^\0- "=\\]*)(?: |$)')


def logfmt(line: str) -> dict[str, str]:
    """The pairs of one logfmt line; AssertionError if any of it is not logfmt."""
    pairs, at = {}, 0
    while at < len(line):
        match = PAIR.match(line, at)
        assert match, f"not logfmt at {line[at:]!r}"
        value = match["value"]
        pairs[match["key"]] = json.loads(value) if value.startswith('"') else value
        at = match.end()
    return pairs


READERS: dict[LogFormat, Callable[[str], dict[str, str]]] = {
    LogFormat.JSON: json.loads,
    LogFormat.LOGFMT: logfmt,
}


def only_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that was logged."""
    out, err = capsys.readouterr()
    line, rest = err.split("\n")
    assert (out, rest) == ("", "")
    return line


@pytest.mark.parametrize("form", LogFormat)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.text(st.characters(exclude_categories=["Cn", "Co", "Cs"])))
def test_any_text_is_one_printable_line_and_printable_text_is_read_back(
    capsys: pytest.CaptureFixture[str], form: LogFormat, value: str
) -> None:
    """A runtime's error may hold anything; `kubectl logs` shows it to a person."""
    capsys.readouterr()
    set_up_log(LogLevel.INFO, form)
    structlog.get_logger().info("said", why=value)
    line = only_line(capsys)
    # Spaces of other widths do no harm.
    assert not {unicodedata.category(char) for char in line} & {"Cc", "Cf", "Zl", "Zp"}
    fields = READERS[form](line)
    written = datetime.fromisoformat(fields.pop("ts"))
    assert abs((datetime.now(UTC) - written).total_seconds()) < 60
    why = fields.pop("why")
    assert why == value or not value.isprintable()
    assert fields == {"level": "info", "msg": "said"}


@pytest.mark.parametrize("form", LogFormat)
def test_a_field_may_be_called_event(capsys: pytest.CaptureFixture[str], form: LogFormat) -> None:
    """Of a missed event, `event` is which one it was."""
    set_up_log(LogLevel.INFO, form)
    structlog.get_logger().warning("missed event", _event="ContainerDied")
    line = only_line(capsys)
    fields = READERS[form](line)
    assert (fields["msg"], fields["event"]) == ("missed event", "ContainerDied")
    # What a person looks for first comes first.
    first = r"ts=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z level=warning msg=\"missed event\" "
    assert form is LogFormat.JSON or re.match(first, line)


@pytest.mark.parametrize("level", LogLevel)
def test_less_severe_lines_are_left_out(
    capsys: pytest.CaptureFixture[str], level: LogLevel
) -> None:
    """`--log.level` is the least severe level that is written."""
    set_up_log(level, LogFormat.JSON)
    names = ["debug", "info", "warn", "error"]
    for name in names:
        getattr(structlog.get_logger(), name)("said")
    written = [json.loads(line)["level"] for line in capsys.readouterr().err.splitlines()]
    assert [name.removesuffix("ing") for name in written] == names[names.index(level.value) :]


@pytest.mark.parametrize("form", LogFormat)
def test_libraries_speak_in_the_same_form(
    capsys: pytest.CaptureFixture[str], form: LogFormat
) -> None:
    """What aiohttp has to say, but for info, is a line like any other, its traceback included."""
    set_up_log(LogLevel.DEBUG, form)
    logging.getLogger("aiohttp.server").info("Using selector")
    try:
        raise ValueError("no\nluck")  # noqa: TRY301 -- a traceback is what is wanted
    except ValueError:
        logging.getLogger("aiohttp.server").exception("Error handling %s", "request")
    fields = READERS[form](only_line(capsys))
    assert (fields["level"], fields["msg"]) == ("error", "Error handling request")
    assert "ValueError: no\nluck" in fields["exception"]


@pytest.mark.parametrize("form", LogFormat)
def test_lines_of_a_kind_are_limited_and_the_rest_is_counted(
    capsys: pytest.CaptureFixture[str], form: LogFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may cause any number; other kinds, and losses by another cause, are not affected."""
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    set_up_log(LogLevel.INFO, form)
    log, library = structlog.get_logger(), logging.getLogger("aiohttp.server")

    def lines() -> Counter[str]:
        read = READERS[form]
        said = [read(line) for line in capsys.readouterr().err.splitlines()]
        return Counter(
            f"{each['msg'].partition(' from ')[0]} {each.get('lines_withheld', 0)}" for each in said
        )

    def fail(number: int) -> None:
        for each in range(number):
            log.info("missed event", cause="by_design", id=str(each))
            library.error("Error handling request from %s", f"10.0.0.{each}")

    fail(100)
    log.warning("missed event", cause="silent")
    library.warning("another kind")
    assert lines() == {
        "missed event 0": 20,
        "Error handling request 0": 20,
        "missed event 160": 1,
        "another kind 0": 1,
    }
    fail(1)
    now += 5
    fail(2)
    assert lines() == {"missed event 2": 1, "Error handling request 0": 1}
    # However long it was calm, the burst is no larger.
    now += 1e6
    fail(100)
    assert sum(lines().values()) == 40
