"""What the status page shows below its headline: lanes of bars, cards, and counts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from exporter.conditions.account import LOST, Account
from exporter.cri.limits import NEARLY_UNSENDABLE_BYTES
from exporter.evidence.reasons import CAUSE_MEANINGS, MEASURES, VERDICT_MEANINGS
from exporter.evidence.timeline import lasting
from exporter.model.findings import Cause, Verdict
from exporter.model.flaws import MEANINGS
from exporter.model.labels import Call, Flaw, KubeletPods
from exporter.node.history import SLOTS, History, Slot
from exporter.node.state import GARBLED, NEARLY_TOO_LARGE, Node, Tally, words_of
from exporter.runtimes.known import known_flaw, known_issues
from exporter.runtimes.kubelets import LAST_TRUSTING
from exporter.runtimes.runtime import KnownIssue
from exporter.settings.config import Config
from exporter.web.probes import not_alive, not_ready

# A lane is so tall; the lowest number that fills one.
_TALL: Final = 20
_FEW: Final = 5
# Share of a slot's width; the rest separates the bars.
_WIDE: Final = 0.8
# The exporter was not subscribed, dropped events, or shares them with another subscriber.
_EXCUSED: Final = (Cause.STREAM_DOWN, Cause.DISCARDED, Cause.SHARED)


@dataclass(frozen=True, slots=True)
class Card:
    """`notes`: below the value; empty ones are left out."""

    title: str
    value: str
    notes: tuple[str, ...] = ()
    issues: tuple[KnownIssue, ...] = ()


@dataclass(frozen=True, slots=True)
class CountRow:
    """A number and what it counts."""

    label: str
    number: int
    meaning: str


def cards_of(node: Node, config: Config, now: float) -> Iterator[Card]:
    """The node at monotonic time `now`."""
    runtime, seen = node.runtime, node.inventory
    inventory = f"{seen.pods} pods, {seen.containers.total()} containers"
    name = f"{runtime.name} {runtime.version}" if runtime else "not reached yet"
    yield Card("Runtime", name, (inventory,), _issues(node))
    dropped = f"{node.discards} events discarded" if node.discards else ""
    yield Card("Event stream", node.stream.value, (node.stream_note, dropped))
    last = node.relist_succeeded
    age = "none succeeded yet" if last is None else f"{lasting(max(0.0, now - last))} ago"
    means = ", ".join(
        f"{call.value} {lasting(node.call_seconds[call] / number)}"
        for call in Call
        if (number := node.calls[call])
    )
    hanging = ", ".join([node.hanging[each] for each in node.hanging if each in node.listed][:3])
    hangs = f"ContainerStatus hangs: {hanging}" if hanging else ""
    named = ", ".join([words_of(item) for item in node.garbled.values()][:3])
    garbled = f"Listed with {GARBLED}: {named}" if named else ""
    calls = f"on average: {means}" if means else ""
    large = max(node.list_bytes.values(), default=0) >= NEARLY_UNSENDABLE_BYTES
    nearly = NEARLY_TOO_LARGE if large else ""
    yield Card("Last relist", age, (node.relist_note, nearly, garbled, hangs, calls))
    dead, unready = not_alive(node, config, now), not_ready(node, config, now)
    words = f"{'not alive' if dead else 'alive'}, {'not ready' if unready else 'ready'}"
    yield Card("Health", words, (dead,))
    yield _exits(node.tally)
    if node.pods is not KubeletPods.OFF:
        yield _belief(node)


def counts_of(node: Node) -> dict[str, tuple[CountRow, ...]]:
    """Everything that was counted, by title."""
    tally, missed, rest = node.tally, Verdict.MISSED, VERDICT_MEANINGS.items()
    return {
        "Missed events, by cause": tuple(
            CountRow(cause.value, tally.total(missed, cause), text)
            for cause, text in CAUSE_MEANINGS.items()
        ),
        "Lifecycle events, by verdict": tuple(
            CountRow(verdict.value, tally.total(verdict), text)
            for verdict, text in rest
            if verdict not in {Verdict.OVERFLOW, Verdict.FLAWED, *MEASURES}
        ),
        "Flawed events, by flaw": tuple(
            CountRow(flaw.value, tally.total(Verdict.FLAWED, flaw), _flaw(node, flaw))
            for flaw in Flaw
        ),
    }


def _flaw(node: Node, flaw: Flaw) -> str:
    """What it is, what it does to kubelets that trust events, and who is known for it."""
    meaning = MEANINGS[flaw]
    said = f"{meaning.what}; a kubelet up to {LAST_TRUSTING} {meaning.does}"
    runtime = node.runtime
    known = known_flaw(runtime.name, runtime.version, flaw) if runtime else None
    return f"{said}; known of this runtime: {known.id}" if known else said


def _exits(tally: Tally) -> Card:
    """How late they are announced and listed on average, and of how many that is known."""
    announced, listed = map(tally.mean_seconds, (Verdict.EXIT_ANNOUNCED, Verdict.EXIT_LISTED))
    return Card(
        "Exits",
        "none announced yet" if announced is None else f"announced after {lasting(announced)}",
        (
            "" if listed is None else f"listed after {lasting(listed)} by the shadow relist",
            f"on average of {tally.total(Verdict.EXIT_ANNOUNCED)} exits",
        ),
    )


def _belief(node: Node) -> Card:
    """How late the kubelet shows exits, on average; or why that is not known."""
    mean = node.tally.mean_seconds(Verdict.EXIT_BELIEVED)
    number = node.tally.total(Verdict.EXIT_BELIEVED)
    value = node.pods.value if mean is None else f"shows exits after {lasting(mean)}"
    return Card(
        "Kubelet's pods",
        value,
        (node.pods_note, f"on average of {number} exits" * (mean is not None)),
    )


def _issues(node: Node) -> tuple[KnownIssue, ...]:
    """What is known to be broken here, whatever the kubelet."""
    return known_issues(node.runtime.name, node.runtime.version) if node.runtime else ()


@dataclass(frozen=True, slots=True)
class Lane:
    """`bars`: an SVG path in a box of `SLOTS` by 20. `total`: of the window; None where none is.

    Bars show misses when they were found; a total leaves out those that were announced later.
    """

    name: str
    colour: str
    bars: str
    total: int | None = None


def lanes_of(history: History, account: Account, now: float) -> tuple[Lane, ...]:
    """The last 15 minutes up to monotonic time `now`, of which `account` is: a bar for 10 s."""
    slots = history.slots(now)
    first = slots[-1].number - SLOTS + 1
    relist = [_found(slot, Verdict.WITNESSED, None) for slot in slots]
    stream, kernel = ([getattr(slot, name) for slot in slots] for name in ("announced", "kernel"))
    kubelet = [slot.kubelet for slot in slots]
    lost = [_found(s, Verdict.MISSED, *LOST) + _found(s, Verdict.GAP, None) for s in slots]
    excused = [_found(s, Verdict.MISSED, *_EXCUSED) + s.discarded for s in slots]
    down = [slot.down for slot in slots]
    most = max(_FEW, *relist, *stream, *kernel, *kubelet)

    def bars(numbers: Sequence[int], full: int = 1) -> str:
        """One path for all bars: ninety separate elements would slow down the page."""
        return "".join(
            f"M{slot.number - first} {_TALL}v{-max(1, _TALL * min(number, full) // full)}h{_WIDE}"
            f"V{_TALL}z"
            for slot, number in zip(slots, numbers, strict=True)
            if number
        )

    return (
        Lane("relist", "relist", bars(relist, most), sum(relist)),
        Lane("stream", "stream", bars(stream, most), account.received),
        *((Lane("kernel", "kernel", bars(kernel, most), sum(kernel)),) if any(kernel) else ()),
        *((Lane("kubelet", "kubelet", bars(kubelet, most), sum(kubelet)),) if any(kubelet) else ()),
        Lane("lost", "lost", bars(lost), account.lost(*LOST) + account.gaps),
        Lane("not received", "unsure", bars(excused), account.lost(*_EXCUSED)),
        Lane("stream down", "down", bars(down)),
    )


def _found(slot: Slot, verdict: Verdict, *causes: Cause | None) -> int:
    return sum(
        number for (of, _, cause), number in slot.found.items() if of is verdict and cause in causes
    )
