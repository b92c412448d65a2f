"""Flags and variables: valid values, and the errors for all others."""

import os
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import ConfigError
from exporter.runtimes.permission import EventStream
from exporter.settings.config import Config, LogFormat
from exporter.settings.declaring import Flag, flags_of, from_text
from exporter.settings.flags import ListenAddress, byte_count
from fleet.request import Request
from tests import table
from tests.support.fixtures import examples

pytestmark = pytest.mark.quick

VALUES = table(__file__, "values.yaml")
LONG_PATH = "/" + "a" * 107
LIKE_10S = "is not a duration: write it like 10s, 1m30s, 500ms or 7d"
NO_SOCKET = "is not a unix socket: write it like unix:///run/containerd/containerd.sock"
TOO_LONG = "is longer than a unix socket's path may be (107 bytes)"


def refused(section: str) -> list[tuple[str, str, str]]:
    """Each setting, a text, and what is said of it."""
    return [
        (name, text, f"{text!r} {said}")
        for said, texts_of in VALUES[section].items()
        for names, texts in texts_of.items()
        for name, text in product(names.split(), texts)
    ]


BAD = [
    *refused("refused"),
    *(
        (name, text, f"{text!r} {said}")
        for name, text, said in (
            ("relist_period", "9" * 400 + "s", LIKE_10S),
            ("runtime_endpoint", "/\udcff", NO_SOCKET),
            ("runtime_endpoint", LONG_PATH, TOO_LONG),
            ("runtime_endpoint", "/" + "é" * 54, TOO_LONG),
        )
    ),
]
GOOD: tuple[tuple[str, str, Any], ...] = (
    ("relist_period", "1m30s", 90.0),
    ("relist_period", "1.5s", 1.5),
    ("relist_max_duty", "0.25%", 0.0025),
    ("relist_max_duty", "100%", 1.0),
    ("relist_threshold", "1w1d12h", 734400.0),
    ("relist_threshold", "31s", 31.0),
    ("watchdog_timeout", "0", 0.0),
    ("watchdog_timeout", "1s", 1.0),
    ("missed_grace", "0", 0.0),
    ("stream_lease", "0", 0.0),
    ("stream_lease", "1s", 1.0),
    ("event_stream", "never", EventStream.NEVER),
    ("event_queue_capacity", "1000000", 1_000_000),
    ("web_listen_address", ":65535", ListenAddress("", 65535)),
    ("web_listen_address", "127.0.0.1:13386", ListenAddress("127.0.0.1", 13386)),
    ("web_listen_address", "[::1]:13386", ListenAddress("::1", 13386)),
    ("web_telemetry_path", "/metrics/pleg", "/metrics/pleg"),
    ("web_telemetry_path", "/.metrics/..pleg/a.", "/.metrics/..pleg/a."),
    ("web_probe_address", ":13387", ListenAddress("", 13387)),
    ("web_probe_address", "", None),
    ("web_debug_pages", "false", False),
    ("web_runbooks_url", "https://wiki.example/r/", "https://wiki.example/r"),
    ("runtime_endpoint", "unix:///run/crio/crio.sock", Path("/run/crio/crio.sock")),
    ("runtime_endpoint", "unix:/run/crio/crio.sock", Path("/run/crio/crio.sock")),
    ("runtime_endpoint", "", None),
    ("runtime_endpoint", LONG_PATH[:-1], Path(LONG_PATH[:-1])),
    ("log_format", "json", LogFormat.JSON),
)
ENV_OF = {setting.name: setting.env for setting in flags_of(Config)}
FLAG_OF = {setting.name: setting.flag for setting in flags_of(Config)}
# What argv and the environment can hold: any bytes but NUL, decoded as Python does.
RAW = st.binary(max_size=120).map(lambda raw: os.fsdecode(raw.replace(b"\0", b"")))
ARGUMENTS = st.builds(str.__add__, st.sampled_from(["", "/", "unix:///", ":", "[", "1", "1s"]), RAW)


@pytest.mark.parametrize(("name", "text", "said"), BAD)
def test_a_bad_value_is_answered_with_what_to_write_instead(
    name: str, text: str, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        from_text(Config, {name: text})
    assert str(caught.value) == f"{FLAG_OF[name]}: {said}"
    if text:
        with pytest.raises(ConfigError) as caught:
            from_text(Config, {}, {ENV_OF[name]: text})
        assert str(caught.value) == f"{ENV_OF[name]}: {said}"


@pytest.mark.parametrize(("name", "text", "said"), refused("of_report"))
def test_a_bad_value_for_the_report_is_answered_so_too(name: str, text: str, said: str) -> None:
    """By its flag; few have a variable."""
    with pytest.raises(ConfigError) as caught:
        from_text(Request, {"prometheus_url": "http://p:9090", name: text})
    assert str(caught.value) == f"--{name.replace('_', '-')}: {said}"


@pytest.mark.parametrize(("name", "text", "value"), GOOD)
def test_a_good_value_means_the_same_as_flag_and_as_variable(
    name: str, text: str, value: object
) -> None:
    assert getattr(from_text(Config, {name: text}), name) == value
    assert getattr(from_text(Config, {}, {ENV_OF[name]: text}), name) == value


def test_a_size_is_in_bytes() -> None:
    assert [byte_count(text) for text in ("16MiB", "2GiB")] == [16 << 20, 2 << 30]


@pytest.mark.parametrize(("said", "texts"), VALUES["clashes"].items())
def test_values_that_clash_are_refused_together(texts: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_text(Config, texts)
    assert str(caught.value) == said


@pytest.mark.parametrize("setting", flags_of(Config), ids=lambda setting: setting.name)
@examples(0.3)
@given(text=ARGUMENTS)
def test_no_text_does_anything_but_parse_or_be_refused_in_one_line(
    setting: Flag, text: str
) -> None:
    try:
        from_text(Config, {setting.name: text})
    except ConfigError as error:
        said = str(error)
    else:
        said = "--"
    assert said.startswith("--")
    assert "\n" not in said


@pytest.mark.parametrize("name", ENV_OF)
def test_an_empty_variable_is_unset(name: str) -> None:
    """A manifest may leave a value empty; that chooses the default."""
    assert from_text(Config, {}, {ENV_OF[name]: ""}) == Config()
