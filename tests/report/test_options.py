"""How the text of `report`'s flags becomes a request."""

from __future__ import annotations

import time

import pytest

from exporter.errors import ConfigError
from exporter.report.options import FailOn, ReportFormat, Request
from exporter.settings.declaring import from_text

pytestmark = pytest.mark.quick
URL = {"prometheus_url": "http://p:9090"}


def test_the_url_is_enough() -> None:
    """The defaults are those of the help."""
    request = from_text(Request, URL)
    assert (request.window, request.objective, request.end) == (7 * 86400, 0.999, None)
    assert (request.output_format, request.fail_on) == (ReportFormat.MARKDOWN, FailOn.NEVER)


@pytest.mark.parametrize(
    ("window", "step", "slices"),
    [
        ("10m", 300, 2),
        ("2h", 300, 24),
        ("1d", 300, 288),
        ("7d", 1800, 336),
        ("1w", 1800, 336),
        ("1d12h", 420, 309),
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
    ("text", "moment"),
    [
        ("1794614400", 1794614400.0),
        ("2026-11-14T00:00:00Z", 1794614400.0),
        ("2026-11-14T01:30:00+01:30", 1794614400.0),
    ],
)
def test_times_are_rfc_3339_or_unix_seconds(text: str, moment: float) -> None:
    """A time without a zone would be anybody's."""
    assert from_text(Request, {**URL, "end": text}).end == moment


@pytest.mark.parametrize(
    "url",
    ["", "p:9090", "ftp://p", "http://", "http://p:x", "http://p:0", "http://p?a=b", "http://p p"],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    """Before anything is asked."""
    with pytest.raises(ConfigError, match=r"^--prometheus-url: "):
        from_text(Request, {"prometheus_url": url})


def test_labels_and_matchers_are_taken_apart() -> None:
    """As a person writes them."""
    request = from_text(Request, {**URL, "node_labels": "cluster, node", "selector": 'job="a", '})
    assert request.node_labels == ("cluster", "node")
    assert request.selector == 'job="a"'


@pytest.mark.parametrize("text", ["a,,b", "node,node", "1a", "a b"])
def test_labels_that_cannot_be_are_refused(text: str) -> None:
    """PromQL of a typo would say something else."""
    with pytest.raises(ConfigError, match=r"^--node-labels: "):
        from_text(Request, {**URL, "node_labels": text})
