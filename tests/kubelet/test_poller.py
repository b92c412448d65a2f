"""Polling the kubelet: what is exported and logged, and that the watch does not suffer."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from structlog.typing import EventDict

from exporter.model.labels import Gate, Problem, StreamState
from simulator.options import Options
from testbed.waiting import until
from tests.kubelet.test_client import WAYS
from tests.support import kubelets as server
from tests.support.kubelets import FakeKubelet, KubeletPage, kubelet
from tests.support.observer import Observer, observing
from tests.support.runtimes import DISABLED, QUIET, running_container, simulated
from tests.support.scripted_runtime import ScriptedServer

pytestmark = pytest.mark.virtual_time

OFTEN = 0.05
NAMES = (
    "shadow_pleg_kubelet_last_seen_seconds",
    "shadow_pleg_kubelet_errors_total",
    "shadow_pleg_kubelet_evented_pleg",
    "shadow_pleg_evented_pleg_configuration",
    "shadow_pleg_kubelet_reliance",
)


@asynccontextmanager
async def polling(
    page: KubeletPage | None = None, options: Options = QUIET, period: float = OFTEN
) -> AsyncIterator[tuple[ScriptedServer, FakeKubelet, Observer]]:
    """A runtime, a kubelet, and a daemon that polls it."""
    async with (
        simulated(options) as runtime,
        kubelet(page) as fake,
        observing(
            runtime.socket, kubelet_metrics_url=fake.url, kubelet_metrics_period=period
        ) as observer,
    ):
        yield runtime, fake, observer


def errors(observer: Observer, problem: Problem) -> int:
    """How many readings failed so far, for that reason."""
    assert observer.node.kubelet is not None
    return observer.node.kubelet.errors[problem]


async def gate_is(observer: Observer, gate: Gate) -> None:
    """Wait until that is known, or no longer."""
    known = observer.node.kubelet
    assert known is not None
    await until(
        lambda: known.gate(time.monotonic()) is gate, f"the gate is {gate.value}", seconds=30
    )


def lost(observer: Observer) -> dict[str, int]:
    """What was missed or is a gap; that a pod's first steps are over at once is not of interest."""
    return {key: n for key, n in observer.losses.items() if not key.startswith("unseen")}


async def test_without_the_flag_nothing_is_asked_and_nothing_unknown() -> None:
    """A metric that says "unknown" would be a reason to look."""
    async with simulated() as runtime, observing(runtime.socket) as observer:
        exported = {sample.name for sample in (await observer.metrics()).samples}
        assert not exported & set(NAMES)
        assert observer.node.kubelet is None


@pytest.mark.parametrize(
    ("options", "page", "state"),
    [
        (QUIET, KubeletPage(gate=True), "both_on"),
        (QUIET, KubeletPage(gate=False), "runtime_only"),
        (QUIET, KubeletPage(gate=None), "unknown"),
        (DISABLED, KubeletPage(gate=True), "gate_only"),
        (DISABLED, KubeletPage(gate=False), "both_off"),
    ],
)
async def test_whether_the_node_is_configured_for_one_thing_is_exported(
    options: Options, page: KubeletPage, state: str
) -> None:
    """The kubelet's gate together with what the runtime's stream shows."""
    async with polling(page, options) as (_, _, observer):
        gate = {True: "on", False: "off", None: "unlisted"}[page.gate]
        await gate_is(observer, Gate(gate))
        reached = StreamState.STREAMING if options is QUIET else StreamState.DISABLED
        await observer.reaches(reached)
        seen = await observer.shows(
            lambda seen: seen.state(NAMES[3]) == state, f"the configuration is {state}"
        )
        assert seen.state(NAMES[2]) == gate
        assert seen.state(NAMES[4]) == ("replaces" if page.gate else "none")
        assert seen.value(NAMES[0]) == pytest.approx(time.time(), abs=30)
        assert not seen.counts(NAMES[1])


async def test_whatever_the_kubelet_does_the_watch_goes_on() -> None:
    """Each way to fail is counted; containers come and go meanwhile, and none is missed."""
    async with polling() as (runtime, fake, observer):
        await observer.connected()
        await gate_is(observer, Gate.OFF)
        for number, (answer, reason, _) in enumerate(WAYS.values()):
            counted = partial(errors, observer, Problem(reason))
            before, fake.answer = counted(), answer
            running_container(runtime, f"web-{number}")
            await until(lambda c=counted, b=before: c() > b + 1, f"{reason} is counted twice")  # type: ignore[misc] # mypy knows no defaults of lambdas
            assert observer.node.stream is StreamState.STREAMING
        fake.answer = None
        await gate_is(observer, Gate.OFF)
        await observer.judged()
        assert lost(observer) == {}
        exported = (await observer.metrics()).counts(NAMES[1])
        assert set(exported) == {(reason,) for _, reason, _ in WAYS.values()}


async def test_a_failure_is_logged_once_and_so_is_its_end(log: list[EventDict]) -> None:
    """Fifty readings that fail in two ways by turns are one line for each."""
    async with polling(period=0.01) as (_, fake, observer):
        for _ in range(25):
            for number, problem in ((403, Problem.FORBIDDEN), (503, Problem.STATUS)):
                before, fake.answer = errors(observer, problem), server.status(number)
                await until(lambda p=problem, b=before: errors(observer, p) > b, "it fails")  # type: ignore[misc] # mypy knows no defaults of lambdas
        fake.answer = None
        await gate_is(observer, Gate.OFF)
        asked = len(fake.requests)
        await until(lambda: len(fake.requests) > asked + 10, "it is polled on")
    failing = [line for line in log if line["event"] == "kubelet not scraped"]
    said = [(line["log_level"], line["reason"]) for line in failing if line["log_level"] != "debug"]
    assert said == [("warning", "forbidden"), ("warning", "status")]
    healed = [line for line in log if line["event"] == "the kubelet answers"]
    assert "its gate EventedPLEG is off" in healed[-1]["status"]


async def test_one_reading_is_in_flight_at_a_time() -> None:
    """However slow it is, and it never takes more than half of the time."""
    async with polling(period=0.01) as (_, fake, _):
        fake.answer = server.slowly(0.1)
        asked = len(fake.requests) + 1
        await until(lambda: len(fake.requests) > asked + 5, "it was polled some times")
        times = [at for at, _ in fake.requests[asked:]]
        assert fake.most == 1
        assert (times[5] - times[0]) / 5 > 0.19


async def test_a_hanging_kubelet_holds_up_neither_the_watch_nor_its_end() -> None:
    """SIGTERM does not wait for an answer."""
    async with polling() as (runtime, fake, observer):
        fake.answer = server.hangs
        await observer.connected()
        await until(lambda: fake.in_flight == 1, "it is polled")
        running_container(runtime)
        await observer.judged()
        assert lost(observer) == {}
        assert fake.in_flight == 1
        began = time.monotonic()
    assert time.monotonic() - began < 2
    assert fake.in_flight == 0
