"""How the text of `report`'s flags becomes a request."""

import time

import pytest

from exporter.errors import ConfigError
from exporter.settings.declaring import from_text
from fleet.options import Request

pytestmark = pytest.mark.quick
URL = {"prometheus_url": "http://p:9090"}


@pytest.mark.parametrize(
    ("window", "step", "slices"),
    [
        ("10m", 300, 2),
        ("2h", 300, 24),
        ("1d", 300, 288),
        ("7d", 1800, 336),
        ("1w", 1800, 336),
        ("1d1s", 900, 97),
        ("1d12h", 900, 144),
        ("30d", 7740, 335),
        ("366d", 94140, 336),
    ],
)
def test_a_window_is_looked_at_in_at_most_336_slices_of_whole_minutes(
    window: str, step: int, slices: int
) -> None:
    """None shorter than what Prometheus looks back; together no less than the window."""
    request = from_text(Request, {**URL, "window": window, "end": "1794621601"})
    span = request.span
    assert (span.step, span.slices) == (step, slices)
    assert request.window <= span.seconds < request.window + step
    assert span.end % step == 0
    assert 0 <= 1794621601 - span.end < step


def test_without_an_end_it_is_now() -> None:
    """To a slice."""
    before = time.time()
    span = Request(prometheus_url="http://p", window=600).span
    assert before - span.step < span.end <= time.time()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("end", "1794614400", 1794614400.0),
        ("end", "2026-11-14T00:00:00Z", 1794614400.0),
        ("end", "2026-11-14T01:30:00+01:30", 1794614400.0),
        ("node_labels", "cluster, node", ("cluster", "node")),
        ("selector", 'job="a", ', 'job="a"'),
    ],
)
def test_values_are_read_as_a_person_writes_them(name: str, text: str, value: object) -> None:
    """Times in RFC 3339 or unix seconds, labels and matchers with spaces."""
    assert getattr(from_text(Request, {**URL, name: text}), name) == value


NO_URL = "is not a URL: write it like http://prometheus.example:9090"
NO_DURATION = "is not a duration: write it like 10s, 1m30s, 500ms or 7d"
NO_TIME = "is not a time: write it like 2026-11-21T16:00:00Z, or in unix seconds"
NO_MATCHERS = (
    'are no label matchers: write them without braces, like job="shadow-pleg",cluster="prod"'
)
REFUSED = {
    "prometheus_url": {
        **dict.fromkeys(("p:9090", "ftp://p", "http://", "http://p:x", "http://p:0"), NO_URL),
        **dict.fromkeys(("http://p?a=b", "http://p p"), NO_URL),
        # No DNS name: a label that is empty, or longer than 63 letters.
        **dict.fromkeys(("http://a..b", f"http://{'a' * 64}.example"), NO_URL),
    },
    "window": {
        **dict.fromkeys(("", "week", "7"), NO_DURATION),
        **dict.fromkeys(("5m", "367d"), "is out of range: choose a window from 10m to 366d"),
    },
    "min_time": {"day": NO_DURATION},
    "min_nodes": dict.fromkeys(("0", "-1", "many"), "is not a whole number above 0"),
    "min_transitions": {"1.5": "is not a whole number above 0"},
    "end": dict.fromkeys(("yesterday", "2026-11-21T16:00:00", "1969-01-01T00:00:00Z"), NO_TIME),
    "objective": {
        "99.9": "is not a percentage from 0% to 100%: write 99.9%",
        "100%": "can never be proven: give an objective below 100%, like 99.9%",
    },
    "selector": dict.fromkeys(('{job="a"}', 'job="a'), NO_MATCHERS),
    "node_labels": dict.fromkeys(
        ("a,,b", "node,node", "1a", "a b", "a-b"),
        "are no label names: write them like node or cluster,node",
    ),
    "kubelet_version": dict.fromkeys(
        ("1", "v1.25.0", "v1.38.0", "new"),
        "is not the version of a known kubelet: write it like v1.36.0",
    ),
    "output_format": {"pdf": "is not one of markdown, json"},
}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [(name, text, said) for name, texts in REFUSED.items() for text, said in texts.items()],
)
def test_an_unusable_value_is_refused(name: str, text: str, said: str) -> None:
    """The line names the flag and says what to write instead."""
    with pytest.raises(ConfigError) as caught:
        from_text(Request, {**URL, name: text})
    assert str(caught.value) == f"--{name.replace('_', '-')}: {text!r} {said}"
