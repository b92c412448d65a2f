"""The kubelet asked beside the watch: what is exported, what is logged, and nothing suffers."""

from __future__ import annotations

import asyncio
import time

import pytest
from aiohttp import web
from structlog.typing import EventDict

from exporter.kubelet.state import Gate, Problem
from exporter.node.state import Node, StreamState
from exporter.settings.config import KubeletTls
from exporter.simulator.options import Events, Options, Runtime
from tests.kubelet.conftest import Papers
from tests.kubelet.test_client import WAYS
from tests.kubelet.test_poller_stream import lost
from tests.support import kubelet_server as server
from tests.support.kubelet_pages import Page
from tests.support.kubelet_server import kubelet
from tests.support.observer import Observer, observing
from tests.support.runtimes import QUIET, running_container, simulated
from tests.support.waiting import until

OFTEN = 0.05
SILENT = Options(pods=0, churn=0, runtime=Runtime.CRIO, events=Events.DISABLED)
NAMES = (
    "shadow_pleg_kubelet_last_seen_seconds",
    "shadow_pleg_kubelet_errors_total",
    "shadow_pleg_kubelet_evented_pleg",
    "shadow_pleg_evented_pleg_configuration",
)


async def one_of(observer: Observer, name: str) -> str:
    """The one state that is 1."""
    states = await observer.samples(name)
    assert sum(states.values()) == 1
    return next(state for (state,), value in states.items() if value == 1)


def errors(node: Node) -> dict[Problem, int]:
    """What went wrong so far, by reason."""
    assert node.kubelet is not None
    return dict(node.kubelet.errors)


async def gate_is(observer: Observer, gate: Gate) -> None:
    """Wait until that is known, or no longer."""
    known = observer.node.kubelet
    assert known is not None
    await until(
        lambda: known.gate(time.monotonic()) is gate, f"the gate is {gate.value}", seconds=30
    )


@pytest.mark.virtual_time
async def test_without_the_flag_nothing_is_asked_and_nothing_unknown() -> None:
    """A metric that says "unknown" is one that somebody should look at."""
    async with simulated() as runtime, observing(runtime.socket) as observer:
        for name in NAMES:
            assert await observer.samples(name) == {}
        assert observer.node.kubelet is None


@pytest.mark.parametrize(
    ("options", "page", "state"),
    [
        (QUIET, Page(gate=True), "both_on"),
        (QUIET, Page(gate=False), "runtime_only"),
        (QUIET, Page(gate=None), "unknown"),
        (SILENT, Page(gate=True), "gate_only"),
        (SILENT, Page(gate=False), "both_off"),
    ],
)
@pytest.mark.virtual_time
async def test_whether_the_node_is_configured_for_one_thing_is_exported(
    options: Options, page: Page, state: str
) -> None:
    """The kubelet's gate beside what the runtime's stream shows."""
    name = "shadow_pleg_evented_pleg_configuration"
    async with simulated(options) as runtime, kubelet(page) as fake:
        settings = {"kubelet_metrics_url": fake.url, "kubelet_metrics_period": OFTEN}
        async with observing(runtime.socket, **settings) as observer:
            gate = {True: "on", False: "off", None: "unlisted"}[page.gate]
            await gate_is(observer, Gate(gate))
            reached = StreamState.STREAMING if options is QUIET else StreamState.DISABLED
            await observer.reaches(reached)

            async def shown() -> bool:
                return await one_of(observer, name) == state

            await until(shown, f"the configuration is {state}", seconds=30)
            assert await one_of(observer, "shadow_pleg_kubelet_evented_pleg") == gate
            ((_, seen),) = (await observer.samples(NAMES[0])).items()
            assert seen == pytest.approx(time.time(), abs=30)
            assert not any((await observer.samples(NAMES[1])).values())


@pytest.mark.virtual_time
async def test_whatever_the_kubelet_does_the_watch_goes_on(log: list[EventDict]) -> None:
    """Each way to fail is counted; containers come and go meanwhile, and none is missed."""
    async with simulated() as runtime, kubelet() as fake:
        settings = {"kubelet_metrics_url": fake.url, "kubelet_metrics_period": OFTEN}
        async with observing(runtime.socket, **settings) as observer:
            await observer.connected()
            await gate_is(observer, Gate.OFF)
            for number, (answer, reason, _) in enumerate(WAYS.values()):
                before = observer.node.kubelet.errors[Problem(reason)]  # type: ignore[union-attr] # it is asked
                fake.answer = answer
                running_container(runtime, f"web-{number}")
                await until(
                    lambda r=reason, b=before: errors(observer.node).get(Problem(r), 0) > b + 1,  # type: ignore[misc] # mypy knows no defaults of lambdas
                    f"{reason} is counted twice",
                )
                assert observer.node.stream is StreamState.STREAMING
            fake.answer = None
            await gate_is(observer, Gate.OFF)
            await observer.judged()
            assert await lost(observer) == {}
            counted = await observer.samples("shadow_pleg_kubelet_errors_total")
            assert {label for (label,) in counted} == {problem.value for problem in Problem}
            assert {Problem(r) for _, r, _ in WAYS.values()} == set(errors(observer.node))
    warnings = [line for line in log if line["event"] == "the kubelet was not read"]
    # Never more than some at once, however the ways to fail take turns.
    assert 1 < sum(line["log_level"] == "warning" for line in warnings) <= 5


@pytest.mark.virtual_time
async def test_a_failure_is_told_once_and_so_is_its_end(log: list[EventDict]) -> None:
    """Fifty readings that fail alike are one line."""
    async with simulated() as runtime, kubelet() as fake:
        fake.answer = server.status(403)
        settings = {"kubelet_metrics_url": fake.url, "kubelet_metrics_period": 0.01}
        async with observing(runtime.socket, **settings) as observer:
            await until(lambda: errors(observer.node).get(Problem.FORBIDDEN, 0) > 50, "it fails")
            fake.answer = None
            await gate_is(observer, Gate.OFF)
            await until(lambda: len(fake.requests) > 60, "it is asked on")
    failing = [line for line in log if line["event"] == "the kubelet was not read"]
    (told,) = (line for line in failing if line["log_level"] != "debug")
    assert (told["log_level"], told["reason"]) == ("warning", "forbidden")
    (healed,) = (line for line in log if line["event"] == "the kubelet answers")
    assert "its gate EventedPLEG is off" in healed["status"]


@pytest.mark.virtual_time
async def test_one_reading_is_in_flight_at_a_time() -> None:
    """However slow it is, and it is never asked for more than half of the time."""
    async with simulated() as runtime, kubelet() as fake:

        async def slowly(_request: object) -> web.Response:
            await asyncio.sleep(0.1)
            return web.Response(text=Page().text())

        fake.answer = slowly
        settings = {"kubelet_metrics_url": fake.url, "kubelet_metrics_period": 0.01}
        async with observing(runtime.socket, **settings):
            await until(lambda: len(fake.requests) > 5, "it was asked some times")
        times = [at for at, _ in fake.requests]
        assert fake.most == 1
        assert (times[5] - times[0]) / 5 > 0.19


@pytest.mark.virtual_time
async def test_what_is_not_repeated_is_forgotten() -> None:
    """An answer that is too old is none: the gate is unknown, and when it was known stays."""
    async with simulated() as runtime, kubelet(Page(gate=True)) as fake:
        settings = {"kubelet_metrics_url": fake.url, "kubelet_metrics_period": OFTEN}
        async with observing(runtime.socket, **settings) as observer:
            await observer.connected()
            await gate_is(observer, Gate.ON)
            fake.answer = server.status(503)
            await gate_is(observer, Gate.UNKNOWN)
            assert await one_of(observer, NAMES[2]) == "unknown"
            assert await one_of(observer, NAMES[3]) == "unknown"
            assert (await observer.samples(NAMES[0]))[()] > 0


@pytest.mark.virtual_time
async def test_a_hanging_kubelet_holds_up_neither_the_watch_nor_its_end() -> None:
    """SIGTERM does not wait for an answer."""
    async with simulated() as runtime, kubelet() as fake:
        fake.answer = server.hangs
        async with observing(runtime.socket, kubelet_metrics_url=fake.url) as observer:
            await observer.connected()
            await until(lambda: fake.in_flight == 1, "it is asked")
            running_container(runtime)
            await observer.judged()
            assert await lost(observer) == {}
            assert fake.in_flight == 1
            began = time.monotonic()
        assert time.monotonic() - began < 2
        await until(lambda: fake.in_flight == 0, "nobody waits for the answer")


async def test_a_certificate_that_is_not_looked_at_is_told(
    papers: Papers, log: list[EventDict]
) -> None:
    """Once, at the start, with the flag's name."""
    async with simulated() as runtime, kubelet(tls=papers.server) as fake:
        settings = {"kubelet_metrics_url": fake.url, "kubelet_tls": KubeletTls.INSECURE_SKIP_VERIFY}
        async with observing(runtime.socket, **settings) as observer:
            await gate_is(observer, Gate.OFF)
    (line,) = (line for line in log if "--kubelet-tls" in line["event"])
    assert line["log_level"] == "warning"
