"""Runtimes whose stream is shared or missing: what `check` says, and what `serve` counts."""

import asyncio
from typing import Any

import pytest
from structlog.typing import EventDict

from exporter.runtimes.permission import EventStream
from testbed.churn import Subscriber
from testbed.containerd import Containerd
from tests.support.commands import run_here
from tests.support.observer import observing
from tests.support.real_lives import announced, containers, live, live_slowly, sandboxes

pytestmark = pytest.mark.usefixtures("sound_log")

ALWAYS: dict[str, Any] = {"event_stream": EventStream.ALWAYS, "missed_grace": 1}
# The kind of stream, what becomes of it, and what `check` says of each subject.
STREAMS = {
    "2.1": ("broadcast", "streaming", ["ok"] * 6),
    "1.7": ("exclusive", "refused", [*["ok"] * 4, "note"]),
    "1.6": ("none", "unsupported", [*["ok"] * 4, "note"]),
}
SUBJECTS = ["socket", "runtime", "relist", "kernel", "stream", "events"]
KNOWN = {"2.1": [], "1.7": ["containerd#11579:"], "1.6": ["containerd#11579:", "containerd#10589:"]}


async def test_slow_lives_are_counted_in_full(containerd: Containerd, log: list[EventDict]) -> None:
    kind, state, _ = STREAMS[containerd.version]
    async with observing(containerd.socket) as exporter, containerd.pods() as cri:
        await exporter.shows(lambda seen: seen.stream == state, f"the stream is {state}")
        await exporter.relisted()
        await asyncio.gather(*(live_slowly(cri, f"web-{n}", exporter.relisted) for n in range(2)))
        seen = await exporter.settled()
        refused = [str(line) for line in log if line["event"] == "event stream refused"]
    assert seen.stream == state
    assert seen.labels("shadow_pleg_runtime_info")["stream"] == kind
    assert seen.missed == {}
    assert seen.counts("shadow_pleg_lifecycle_events_total") == containers(2) | sandboxes(2)
    expected = announced(pods=2, containers=2) if state == "streaming" else {}
    assert seen.counts("shadow_pleg_events_received_total") == expected
    assert seen.value("shadow_pleg_stream_connections_total") == bool(expected)
    assert seen.value("shadow_pleg_verdicts_total", verdict="unseen", object="container") == 0
    assert seen.value("shadow_pleg_unresolved_events") == 0
    assert seen.counts("shadow_pleg_flawed_events_total") == {}
    said = ["containerd#7318" in line and "--event-stream=always" in line for line in refused]
    assert said == [True] * (state == "refused")


async def test_a_shared_stream_taken_on_demand(containerd_17: Containerd) -> None:
    """As its only subscriber one gets everything; a sandbox's DELETED comes without its status."""
    async with observing(containerd_17.socket, **ALWAYS) as exporter:
        await exporter.streaming()
        async with containerd_17.pods() as cri:
            slow = (live_slowly(cri, f"slow-{n}", exporter.relisted) for n in range(2))
            fast = (live(cri, f"fast-{n}", containers=2) for n in range(4))
            await asyncio.gather(*slow, *fast)
        seen = await exporter.settled()
    assert seen.missed == {}
    assert seen.counts("shadow_pleg_verdicts_total", verdict="gap") == {}
    assert seen.counts("shadow_pleg_verdicts_total", verdict="duplicate") == {}
    received = seen.counts("shadow_pleg_events_received_total")
    # That sandboxes are announced when created is not to be relied on.
    unreliable = ("CREATED", "sandbox")
    assert received | {unreliable: 6} == announced(pods=6, containers=10)
    assert seen.counts("shadow_pleg_flawed_events_total") == {("DELETED", "no_pod"): 6}


async def test_two_subscribers_of_a_shared_stream_lead_to_no_accusation(
    containerd_17: Containerd,
) -> None:
    """Each receives a part; what went to the other one is `shared`, and nothing is silent."""
    async with (
        Subscriber(containerd_17.socket) as other,
        observing(containerd_17.socket, **ALWAYS) as exporter,
        containerd_17.pods() as cri,
    ):
        await exporter.streaming()
        await asyncio.gather(*(live_slowly(cri, f"slow-{n}", exporter.relisted) for n in range(4)))
        seen = await exporter.settled()
    assert other.received
    # The connection counts as up only once it is known to be served.
    causes = {cause for cause, _, _ in seen.missed}
    assert "shared" in causes
    assert causes <= {"by_design", "shared", "stream_down"}
    # All that there are have an explanation.
    assert seen.value("shadow_pleg_verdicts_total", verdict="gap", cause="") == 0


@pytest.mark.usefixtures("borrowed_process")
def test_what_check_says(
    containerd: Containerd, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, _, levels = STREAMS[containerd.version]
    streams = "note" not in levels
    # Another exporter on this machine is not asked.
    monkeypatch.setenv("SHADOW_PLEG_WEB_LISTEN_ADDRESS", "127.0.0.1:0")
    asked = ("check", f"--runtime-endpoint=unix://{containerd.socket}")
    text = run_here(capsys, *asked)
    assert (text.code, text.err) == (0, "")
    *lines, last = text.out.splitlines()
    said = [line.split()[:3] for line in lines if "->" not in line]
    issues = [issue for _, subject, issue in said if subject == "issue"]
    assert issues == KNOWN[containerd.version]
    others = [(level, subject) for level, subject, _ in said if subject != "issue"]
    watched = [] if streams else [("ok", "watched")]
    assert others == [*zip(levels, SUBJECTS, strict=False), *watched, ("ok", "kubelet")]
    assert any(f" {kind}: " in line for line in lines)
    assert len(lines) - len(said) == (not streams) + len(issues), "one remedy for each"
    assert last == f"this node can be watched{'' if streams else ' (without its event stream)'}"
