"""Flags and variables: valid values, and the errors for all others."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import ConfigError
from exporter.settings.config import Config, EventStream, LogFormat
from exporter.settings.declaring import Flag, flags_of, from_text
from exporter.settings.flags import ListenAddress
from tests.support.searching import examples

pytestmark = pytest.mark.quick

LIKE_10S = "is not a duration: write it like 10s, 1m30s, 500ms or 7d"
NO_TIME = "must be greater than zero, like 10s"
NO_SHARE = "is not a percentage from 0% to 100%: write it like 5%"
NO_COUNT = "is not a whole number from 1 to 1000000"
NO_ADDRESS = "is not an address: write it like :13386, 127.0.0.1:13386 or [::1]:13386"
NO_PORT = "is out of range: choose one from 0 to 65535"
NO_PATH = "is not a path: it starts with / and holds letters, digits, ._~-/"
TAKEN = "is the path of another page: choose another, like /metrics"
NO_FILE = "is not an absolute path: write it like /run/secrets/token"
NO_URL = "is not a URL of metrics: write it like https://127.0.0.1:10250/metrics"
TOO_LONG = "is longer than a unix socket's path may be (107 bytes)"
NO_SOCKET = "is not a unix socket: write it like unix:///run/containerd/containerd.sock"
DURATIONS = ("relist_period", "relist_timeout", "relist_threshold", "missed_grace", "stream_lease")
SHARES = ("101%", "100.1%", "1", "0.01", "-1%", "1 %", "%", "", "1e1%", "1%%", "nan%")
LONG_PATH = "/" + "a" * 107
LONG_IN_BYTES = "/" + "é" * 54
# Whose, which texts, and what is said of each of them.
REFUSED = (
    (DURATIONS, ("10", "-5s", "abc"), LIKE_10S),
    (["relist_period"], ("", " 5s", "5s ", "1e3s", "10S", "nan", "inf", "1.5.5s"), LIKE_10S),
    (["relist_period"], ("9" * 400 + "s", "99999999999h"), LIKE_10S),
    (["relist_period"], ("1h-5s", "1s, 2m", "5s\n1s", "1s 2m"), LIKE_10S),
    (DURATIONS[:3], ("0", "0s", "1ns"), NO_TIME),
    (["relist_max_duty"], SHARES, NO_SHARE),
    (["relist_max_duty"], ("0", "0%", "0.0%"), "must be greater than 0%, like 1%"),
    (["event_stream"], ("maybe", "AUTO", ""), "is not one of auto, always, never"),
    (["log_level"], ("trace", "INFO", ""), "is not one of debug, info, warn, error"),
    (["event_queue_capacity"], ("0", "-1", "1.5", "abc", "1000001", "1e3", "", "01"), NO_COUNT),
    (["web_probe_address"], (":", "13387", "node", "unix:///run/p.sock"), NO_ADDRESS),
    (["web_listen_address"], ("", ":", "13386", ":-1", "::1:80", "[::1]", "[]:1"), NO_ADDRESS),
    (["web_listen_address"], ("localhost:http", "http://node:1", "node"), NO_ADDRESS),
    (["web_telemetry_path"], ("metrics", "", "/m?x", "/m x", "/{x}", "/m#x", "/%41"), NO_PATH),
    (["web_telemetry_path"], ("/", "/livez", "/readyz", "/debug/misses", "/debug"), TAKEN),
    (["web_telemetry_path"], ("/condition/ContainerEventsIncomplete", "/livez/", "//"), TAKEN),
    (
        ["web_telemetry_path"],
        ("/static", "/static/x", "/debug", "/debug/x/", "/condition/x"),
        TAKEN,
    ),
    (["web_debug_pages"], ("no", "False", "1", ""), "is not one of true, false"),
    (["kubelet_token_file", "kubelet_ca_file"], ("token", "./x", "/a\nb"), NO_FILE),
    (["kubelet_metrics_url"], ("node:10250", "https://node:10250", "ftp://node/metrics"), NO_URL),
    (["kubelet_metrics_url"], ("http:///metrics", "https://a:0/m", "https://a:99999/m"), NO_URL),
    (
        ["kubelet_metrics_url"],
        ("https://fd00::1/m", "https://a:b:1:10250/m", "http://a/m#b", "http://a/é"),
        NO_URL,
    ),
    (["runtime_endpoint"], ("run/c.sock", "unix://c.sock", "c", "unix://", "/\udcff"), NO_SOCKET),
    (["runtime_endpoint"], ("tcp://10.0.0.1:10250", "npipe:////./pipe/c"), NO_SOCKET),
    (["runtime_endpoint"], (LONG_PATH, LONG_IN_BYTES), TOO_LONG),
)
BAD = [
    *(
        (who, text, f"{text!r} {said}")
        for each, texts, said in REFUSED
        for who in each
        for text in texts
    ),
    (
        "kubelet_metrics_url",
        "https://me:secret@node:10250/metrics",
        "a password in the URL is visible in process lists: leave it out",
    ),
    ("web_listen_address", ":65536", f"port 65536 {NO_PORT}"),
    ("web_listen_address", ":99999999", f"port 99999999 {NO_PORT}"),
]
GOOD: tuple[tuple[str, str, Any], ...] = (
    ("relist_period", "1m30s", 90.0),
    ("relist_period", "1.5s", 1.5),
    ("relist_max_duty", "0.25%", 0.0025),
    ("relist_max_duty", "100%", 1.0),
    ("relist_threshold", "1w1d12h", 734400.0),
    ("watchdog_timeout", "0", 0.0),
    ("missed_grace", "0", 0.0),
    ("stream_lease", "0", 0.0),
    ("event_stream", "never", EventStream.NEVER),
    ("event_queue_capacity", "1000000", 1_000_000),
    ("web_listen_address", ":65535", ListenAddress("", 65535)),
    ("web_listen_address", "127.0.0.1:13386", ListenAddress("127.0.0.1", 13386)),
    ("web_listen_address", "[::1]:13386", ListenAddress("::1", 13386)),
    ("web_telemetry_path", "/metrics/pleg", "/metrics/pleg"),
    ("web_probe_address", ":13387", ListenAddress("", 13387)),
    ("web_probe_address", "", None),
    ("web_debug_pages", "false", False),
    ("runtime_endpoint", "unix:///run/crio/crio.sock", Path("/run/crio/crio.sock")),
    ("runtime_endpoint", "unix:/run/crio/crio.sock", Path("/run/crio/crio.sock")),
    ("runtime_endpoint", "", None),
    ("runtime_endpoint", LONG_PATH[:-1], Path(LONG_PATH[:-1])),
    ("kubelet_metrics_url", "http://10.0.0.1:10255/metrics", "http://10.0.0.1:10255/metrics"),
    ("kubelet_metrics_url", "https://[fd00::1]:10250/m", "https://[fd00::1]:10250/m"),
    ("kubelet_metrics_url", "https://fd00::1:10250/m", "https://[fd00::1]:10250/m"),
    ("kubelet_metrics_url", "https://api/proxy/metrics?x=1", "https://api/proxy/metrics?x=1"),
    ("log_format", "json", LogFormat.JSON),
)
# Whole sets of flags that clash, and what is said of them.
PERIOD_CLASH = "/readyz would fail between two relists: raise it"
IN_THE_CLEAR = "is not encrypted: use https"
CLASHES = (
    (
        {"relist_period": "3m"},
        f"--relist-threshold: 180s is not longer than --relist-period (180s), {PERIOD_CLASH}",
    ),
    (
        {"relist_threshold": "500ms"},
        f"--relist-threshold: 0.5s is not longer than --relist-period (10s), {PERIOD_CLASH}",
    ),
    (
        {"stream_lease": "500ms"},
        "--stream-lease: 0.5s is shorter than a second: give at least 1s, or 0 for no deadline",
    ),
    (
        {"watchdog_timeout": "999ms"},
        (
            "--watchdog-timeout: 0.999s is shorter than a second, so a busy node would end the"
            " process for nothing: give at least 1s, or 0 for never"
        ),
    ),
    *(
        ({name: text}, f"{flag}: requires --kubelet-metrics-url")
        for name, flag, text in (
            ("kubelet_token_file", "--kubelet-token-file", "/t"),
            ("kubelet_ca_file", "--kubelet-ca-file", "/c"),
            ("kubelet_tls", "--kubelet-tls", "insecure-skip-verify"),
        )
    ),
    *(
        ({name: text, "kubelet_metrics_url": url}, f"{flag}: {url} {IN_THE_CLEAR}")
        for name, flag, text, url in (
            ("kubelet_token_file", "--kubelet-token-file", "/t", "http://10.0.0.1:10255/m"),
            ("kubelet_token_file", "--kubelet-token-file", "/t", "http://localhost.evil/m"),
            ("kubelet_ca_file", "--kubelet-ca-file", "/c", "http://127.0.0.1:10255/m"),
            ("kubelet_tls", "--kubelet-tls", "insecure-skip-verify", "http://[::1]:10255/m"),
        )
    ),
    (
        {
            "kubelet_metrics_url": "https://node:10250/metrics",
            "kubelet_ca_file": "/c",
            "kubelet_tls": "insecure-skip-verify",
        },
        "--kubelet-tls: insecure-skip-verify needs no --kubelet-ca-file: leave one of them out",
    ),
    ({"web_config_file": "/etc/\0.yml"}, "--web.config.file: '/etc/\\x00.yml' is not a path"),
    (
        {"web_probe_address": "127.0.0.1:80", "web_listen_address": "127.0.0.1:80"},
        (
            "--web.probe-address: 127.0.0.1:80 is also --web.listen-address: choose another port,"
            " or leave the flag out"
        ),
    ),
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
    """The message names the flag or the variable, what was given, and what is expected."""
    with pytest.raises(ConfigError) as caught:
        from_text(Config, {name: text})
    assert str(caught.value) == f"{FLAG_OF[name]}: {said}"
    if text:
        with pytest.raises(ConfigError) as caught:
            from_text(Config, {}, {ENV_OF[name]: text})
        assert str(caught.value) == f"{ENV_OF[name]}: {said}"


@pytest.mark.parametrize(("name", "text", "value"), GOOD)
def test_a_good_value_means_the_same_as_flag_and_as_variable(
    name: str, text: str, value: object
) -> None:
    """Flags and variables have the same syntax."""
    assert getattr(from_text(Config, {name: text}), name) == value
    assert getattr(from_text(Config, {}, {ENV_OF[name]: text}), name) == value


@pytest.mark.parametrize(("texts", "said"), CLASHES)
def test_values_that_clash_are_refused_together(texts: dict[str, str], said: str) -> None:
    """Each may be fine alone; the message says which one to change."""
    with pytest.raises(ConfigError) as caught:
        from_text(Config, texts)
    assert str(caught.value) == said


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "127.8.8.8"])
def test_a_token_may_go_in_the_clear_where_nothing_leaves_the_machine(host: str) -> None:
    """For example to a forwarded port."""
    url = f"http://{host}:10255/metrics"
    texts = {"kubelet_metrics_url": url, "kubelet_token_file": "/t"}
    assert from_text(Config, texts).kubelet_token_file == Path("/t")


@pytest.mark.parametrize("setting", flags_of(Config), ids=lambda setting: setting.name)
@examples(0.3)
@given(text=ARGUMENTS)
def test_no_text_does_anything_but_parse_or_be_refused_in_one_line(
    setting: Flag, text: str
) -> None:
    """No bytes cause a traceback."""
    try:
        from_text(Config, {setting.name: text})
    except ConfigError as error:
        said = str(error)
    else:
        said = "--"
    assert said.startswith("--")
    assert "\n" not in said


def test_a_flag_beats_its_variable() -> None:
    """The command line wins."""
    environ = {"SHADOW_PLEG_RELIST_PERIOD": "20s", "NODE_NAME": "from-env"}
    config = from_text(Config, {"relist_period": "30s"}, environ)
    assert (config.relist_period, config.node_name) == (30.0, "from-env")


@pytest.mark.parametrize("name", ENV_OF)
def test_an_empty_variable_is_unset(name: str) -> None:
    """A manifest may leave a value empty; that chooses the default."""
    assert from_text(Config, {}, {ENV_OF[name]: ""}) == Config()


def test_every_setting_has_a_flag_a_variable_and_a_meaning_of_its_own() -> None:
    """Each is unique and has a help text."""
    for texts in zip(*((each.flag, each.env, each.help) for each in flags_of(Config)), strict=True):
        assert all(texts)
        assert len(set(texts)) == len(texts)
