"""The log: one line for each thing, in a form that machines read back exactly."""

import json
import logging
import os
import re
import subprocess
import sys
import textwrap
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
from tests import ROOT

pytestmark = [pytest.mark.quick, pytest.mark.usefixtures("borrowed_process")]

# As Go's logfmt reads it: a bare value holds neither control characters nor space, `"` or `=`.
PAIR = re.compile(r'(?P<key>[^\0- ="]+)=(?P<value>"(?:[^"\\]|\\.)*"|[^\0- "=]*)(?: |$)')


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


def only_line(capfd: pytest.CaptureFixture[str]) -> str:
    out, err = capfd.readouterr()
    line, rest = err.split("\n")
    assert (out, rest) == ("", "")
    return line


@pytest.mark.parametrize("form", LogFormat)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.text(st.characters(exclude_categories=["Cn", "Co", "Cs"])))
def test_any_text_is_one_printable_line_and_printable_text_is_read_back(
    capfd: pytest.CaptureFixture[str], form: LogFormat, value: str
) -> None:
    capfd.readouterr()
    set_up_log(LogLevel.INFO, form)
    structlog.get_logger().info("said", why=value)
    line = only_line(capfd)
    # Spaces of other widths do no harm.
    assert not {unicodedata.category(char) for char in line} & {"Cc", "Cf", "Zl", "Zp"}
    fields = READERS[form](line)
    written = datetime.fromisoformat(fields.pop("ts"))
    assert abs((datetime.now(UTC) - written).total_seconds()) < 60
    why = fields.pop("why")
    assert why == value or not value.isprintable()
    assert fields == {"level": "info", "msg": "said"}


@pytest.mark.parametrize("form", LogFormat)
def test_a_field_may_be_called_event(capfd: pytest.CaptureFixture[str], form: LogFormat) -> None:
    """Of a missed event, `event` is which one it was."""
    set_up_log(LogLevel.INFO, form)
    structlog.get_logger().warning("missed event", _event="ContainerDied")
    line = only_line(capfd)
    fields = READERS[form](line)
    assert (fields["msg"], fields["event"]) == ("missed event", "ContainerDied")
    # What a person looks for first comes first.
    first = r"ts=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z level=warning msg=\"missed event\" "
    assert form is LogFormat.JSON or re.match(first, line)


@pytest.mark.parametrize("level", LogLevel)
def test_less_severe_lines_are_left_out(capfd: pytest.CaptureFixture[str], level: LogLevel) -> None:
    set_up_log(level, LogFormat.JSON)
    names = ["debug", "info", "warn", "error"]
    for name in names:
        getattr(structlog.get_logger(), name)("said")
    written = [json.loads(line)["level"] for line in capfd.readouterr().err.splitlines()]
    assert [name.removesuffix("ing") for name in written] == names[names.index(level.value) :]


@pytest.mark.parametrize("form", LogFormat)
def test_libraries_speak_in_the_same_form(
    capfd: pytest.CaptureFixture[str], form: LogFormat
) -> None:
    set_up_log(LogLevel.DEBUG, form)
    logging.getLogger("aiohttp.server").info("Using selector")
    try:
        raise ValueError("no\nluck")  # noqa: TRY301 -- a traceback is what is wanted
    except ValueError:
        logging.getLogger("aiohttp.server").exception("Error handling %s", "request")
    fields = READERS[form](only_line(capfd))
    assert (fields["level"], fields["msg"]) == ("error", "Error handling request")
    assert "ValueError: no\nluck" in fields["exception"]


@pytest.mark.parametrize("form", LogFormat)
def test_lines_of_a_kind_are_limited_and_the_rest_is_counted(
    capfd: pytest.CaptureFixture[str], form: LogFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may cause any number; other kinds, and losses by another cause, are not affected."""
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    set_up_log(LogLevel.INFO, form)
    log, library = structlog.get_logger(), logging.getLogger("aiohttp.server")

    def lines() -> Counter[str]:
        read = READERS[form]
        said = [read(line) for line in capfd.readouterr().err.splitlines()]
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


PATIENCE = 30.0
# So many lines of four KiB, with a break in each, as a traceback has.
FLOOD = """
    import os, sys, logging, structlog
    from exporter.process.log import LINES, set_up_log
    from exporter.settings.config import LogFormat, LogLevel
    set_up_log(LogLevel.INFO, LogFormat.LOGFMT)
    for number in range(100):
        structlog.get_logger().info(f"line {number}", text="x" * 10_000)
    logging.getLogger("aiohttp").error("no luck")
    print(LINES.dropped, flush=True)
    os.read(0, 1)
    structlog.get_logger().info("read again")
    print(LINES.dropped, flush=True)
"""


def test_a_log_that_nobody_reads_does_not_hold_up_the_process() -> None:
    """What does not fit is dropped and counted; one that was cut off ends before the next."""
    command, pipe = [sys.executable, "-c", textwrap.dedent(FLOOD)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        dropped = int(process.stdout.readline())
        os.set_blocking(process.stderr.fileno(), False)
        held = process.stderr.read()
        os.set_blocking(process.stderr.fileno(), True)
        rest, last = process.communicate(b"x", PATIENCE)
    assert 90 < dropped < 101
    assert held.count(b"\n") == 101 - dropped
    assert int(rest) == dropped
    assert last.startswith(b"\nts=")
    assert last.endswith(b'msg="read again"\n')
