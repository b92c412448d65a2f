"""A page taken piece by piece: what is kept of it, and what is not believed."""

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import KubeletError
from exporter.kubelet.page import Page
from exporter.kubelet.state import KubeletReading
from exporter.model.labels import Gate
from tests.support import kubelets as pages
from tests.support.kubelets import MIB

ASKED = 7.0


def said_of(text: str | bytes, piece: int = 1 << 16) -> KubeletReading:
    """The reading of a page that comes in pieces of that many bytes."""
    content = text.encode() if isinstance(text, str) else text
    page = Page()
    for at in range(0, len(content), piece):
        page.feed(content[at : at + piece])
    return page.reading(ASKED)


@pytest.mark.parametrize(
    ("gate", "found"), [(True, Gate.ON), (False, Gate.OFF), (None, Gate.UNLISTED)]
)
def test_the_gate_is_what_the_kubelet_says(*, gate: bool | None, found: Gate) -> None:
    """On, off, or no such gate; and the other values of PLEG."""
    page = pages.KubeletPage(gate=gate, stream_errors=2, events=2)
    assert said_of(page.text()) == KubeletReading(
        requested=ASKED,
        gate=found,
        version="v1.33.4",
        discards=3.0,
        stream_errors=2.0,
        events=2.0,
        connections=1.0,
    )


@pytest.mark.parametrize(
    ("first", "renamed"),
    [
        ("kubelet_pleg_discard_events", "kubelet_pleg_discard_events_total"),
        (
            "kubelet_evented_pleg_connection_error_count",
            "kubelet_evented_pleg_connection_error_total",
        ),
        (
            "kubelet_evented_pleg_connection_success_count",
            "kubelet_evented_pleg_connection_success_total",
        ),
    ],
)
def test_a_counter_is_known_by_either_name(first: str, renamed: str) -> None:
    """A kubelet that calls it otherwise says the same."""
    text = pages.KubeletPage(gate=True, stream_errors=2, events=2).text()
    other = re.sub(rf"\b{first}\b", renamed, text)
    assert other != text
    assert said_of(other) == said_of(text)


def test_what_a_kubelet_does_not_say_is_not_known() -> None:
    """A kubelet without the gate has no metrics of it, and an old one no build."""
    text = pages.KubeletPage().text()
    said = said_of(
        re.sub(r"^(kubernetes_build_info|kubelet_pleg).*\n", "", text, flags=re.MULTILINE)
    )
    assert said == KubeletReading(requested=ASKED, gate=Gate.OFF)


@given(st.integers(min_value=1, max_value=5000))
def test_it_does_not_matter_how_a_page_is_cut(piece: int) -> None:
    """A piece may end in the middle of a line, or of a letter."""
    text = pages.KubeletPage(gate=True, version="v1.33.4+é").text()
    assert said_of(text, piece) == said_of(text)


def test_a_version_is_cut() -> None:
    """It is logged."""
    assert said_of(pages.KubeletPage(version="v1" * 20_000).text()).version == "v1" * 32


def test_the_last_line_needs_no_end() -> None:
    """What is cut off after its last letter is whole."""
    text = pages.KubeletPage(gate=True).text() + "kubelet_pleg_discard_events_total 7"
    assert said_of(text.replace("kubelet_pleg_discard_events 3\n", "")).discards == 7.0


@pytest.mark.parametrize("number", ["NaN", "+Inf"])
def test_a_number_that_is_none_is_not_said(number: str) -> None:
    """It cannot be counted with."""
    text = pages.KubeletPage().text().replace("discard_events 3", f"discard_events {number}")
    assert said_of(text).discards is None


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('kubernetes_feature_enabled{name="EventedPLEG",stage=""} 0.5', "contradicts itself"),
        ('kubernetes_feature_enabled{name="EventedPLEG",stage="BETA"} 1', "contradicts itself"),
        ('kubernetes_feature_enabled{name="EventedPLEG" 1', "not in Prometheus' text format"),
        ("kubelet_pleg_discard_events \udcff", "not in Prometheus' text format"),
        ("x" * 70_000, "a line longer than 64 KiB"),
        ("kubelet_pleg_discard_events 1\n" * 65, "repeats itself"),
    ],
)
def test_a_page_that_cannot_be_is_refused(line: str, says: str) -> None:
    """Rather than believed in parts."""
    content = f"{pages.KubeletPage().text()}{line}".encode(errors="surrogateescape")
    with pytest.raises(KubeletError, match=says) as caught:
        said_of(content)
    assert caught.value.reason == "malformed"


@pytest.mark.parametrize("text", ["", "<html><body>login</body></html>", "node_load1 0.5\n"])
def test_what_is_no_kubelets_page_is_named(text: str) -> None:
    """A wrong URL answers, too; a gate that is not there must not be taken for an old kubelet."""
    with pytest.raises(KubeletError, match="no metric of a kubelet: does the URL name one"):
        said_of(text)


# 3 MB, as a full node has it.
LARGE = """
import tracemalloc
from tests.support import kubelets as pages
from tests.kubelet.test_page import said_of
content = pages.KubeletPage(bytes=3 * pages.MIB).text().encode()
tracemalloc.start()
said_of(content)
print(tracemalloc.get_traced_memory()[1])
"""


def test_a_large_page_takes_little_memory() -> None:
    """Never more than some pieces of it are held; in a process in which nothing else goes on."""
    command = [sys.executable, "-c", LARGE]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert 0 < int(ran.stdout) < MIB // 2
