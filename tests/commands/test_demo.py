"""`demo` and `simulate` as processes: what they print, and how they end."""

from __future__ import annotations

from tests.support.commands import ANYWHERE, fetch, running
from tests.support.odd_runtimes import folder


async def test_simulate_says_where_it_is_and_what_it_lost() -> None:
    """The embedded runtime alone: a socket for other tools, and a summary at the end."""
    with folder() as here:
        socket = here / "cri.sock"
        flags = (f"--socket=unix://{socket}", "--pods=1", "--containers-per-pod=1")
        async with running("simulate", *flags) as process:
            assert await process.printed() == f"containerd/2.1.9 on unix://{socket}\n"
            assert socket.is_socket()
            outcome = await process.stop()
        assert not socket.exists()
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[-1] == "lost, provably: all 0"


async def test_demo_prints_where_to_look() -> None:
    """One line, then a page that compares what was lost with what was counted."""
    async with running("demo", ANYWHERE, "--pods=2", "--drop=1", "--churn=20") as process:
        name, url = (await process.printed()).rsplit(" ", 1)
        assert name == "shadow-pleg demo:"
        page = await fetch(url.strip())
        outcome = await process.stop()
    assert page.status == 200
    assert "Injected by the embedded runtime, and counted here" in page.text
    assert outcome.code == 0


async def test_demo_without_room_for_its_socket_says_so() -> None:
    """A deep TMPDIR leaves no room for a socket's path: one line, no traceback."""
    with folder() as here:
        deep = here / ("x" * 100)
        deep.mkdir()
        async with running("demo", ANYWHERE, TMPDIR=str(deep)) as process:
            outcome = await process.ended()
    assert outcome.code == 2
    last = outcome.err.splitlines()[-1]
    assert last.startswith("shadow-pleg: ")
    assert "Traceback" not in outcome.err
