"""The sentences below each condition's headline, with the numbers of the node."""

from collections.abc import Iterator
from typing import Final

from exporter.conditions.account import EXITS, LATE_SECONDS, Account
from exporter.conditions.condition import Present, Said
from exporter.model.findings import Cause, Verdict, Why
from exporter.model.labels import EOF, StreamState

# Seconds that a kubelet waits for a list.
KUBELETS_TIMEOUT: Final = 120.0
# The most containers that a sentence names.
NAMED: Final = 3
TOO_LATE: Final = "deadline_exceeded"
UNSENDABLE: Final = "beyond 16 MiB a kubelet can neither list nor remove containers"
# Servers with cri-api before 0.34 send such bytes as they are; clients since 0.34 refuse them.
GARBLED: Final = "text that is not valid UTF-8"
REFUSED: Final = "newer kubelets refuse the whole list (k/k#139132)"
# Why a subscription ended or failed; the runtime's own text is shown with the stream's state.
_REASONS: Final = {
    "unavailable": "The runtime closed the connection, or does not accept one.",
    EOF: "The runtime ended the stream.",
    "overflow": "Events came faster than the exporter could take them.",
    "deadline_exceeded": "The exporter stalled for longer than its lease, or got no answer.",
    "permission_denied": "The exporter may not open the runtime's socket.",
    "internal": "The runtime could not send an event, or sent an invalid one.",
    "resource_exhausted": "The runtime sent one event that is too large.",
}
_STILL_WATCHED: Final = "Relists, ghosts, strays and twins are still watched."


def within(account: Account) -> str:
    """The time span of an account in words: a young process knows less than 15 minutes."""
    minutes = round(account.seconds / 60)
    return f"in the last {minutes} minutes" if minutes > 1 else "in the last minute"


def events(number: int) -> str:
    """That number of lifecycle events, in words."""
    return "1 lifecycle event" if number == 1 else f"{number} lifecycle events"


def clock(wall: float) -> str:
    """The time of day of a unix time, in UTC."""
    seconds = int(wall) % 86_400
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"


def containers(verdict: Verdict, what: str) -> Said:
    """Says for how many containers that contradiction stands now."""

    def said(_account: Account, present: Present) -> Iterator[str]:
        yield f"Containers {what}: {present.standing.get(verdict, 0)} now."

    return said


def counted(what: str, verdict: Verdict, cause: Why | None = None, means: str = "") -> Said:
    """Says how often that was found, and what it means."""

    def said(account: Account, _present: Present) -> Iterator[str]:
        yield f"{what}: {account.number(verdict, cause=cause)}, {within(account)}."
        if means:
            yield means

    return said


def not_answering(_account: Account, present: Present) -> Iterator[str]:
    """Since when the runtime does not answer."""
    if present.relist_reason == TOO_LATE:
        yield f"Its lists did not come in time; a kubelet waits for {KUBELETS_TIMEOUT:.0f} s."
    if not present.answered_wall:
        yield "It has not answered since the exporter started."
    elif present.answers:
        yield "It answers again."
    else:
        yield f"It answered last at {clock(present.answered_wall)}: the data below is from then."


def too_large(_account: Account, _present: Present) -> Iterator[str]:
    """What oversized lists mean for the node."""
    yield "The runtime answers, but a list is too large to send, or exceeds the exporter's limit."
    yield "Beyond 16 MiB a kubelet neither lists containers nor removes exited ones."


def nearly_too_large(_account: Account, present: Present) -> Iterator[str]:
    """How large the larger list is."""
    mib = present.list_bytes / 2**20
    yield f"A list has {mib:.1f} MiB; {UNSENDABLE}."


def relists_slow(_account: Account, present: Present) -> Iterator[str]:
    """How long the last relist took, or for how long the next one is overdue."""
    if present.overdue > present.relist_seconds:
        yield f"The next relist is overdue by {present.overdue:.0f} s."
    else:
        yield f"The last relist took {present.relist_seconds:.0f} s."


def lost(account: Account, present: Present, *causes: Cause) -> Iterator[str]:
    """How many events were lost, exits by themselves."""
    number, exits = account.lost(*causes), account.lost(*causes, events=EXITS)
    # What has not been judged yet may be lost as well.
    owed = max(number, account.owed() - present.unresolved)
    if number:
        share = f" ({100 * number / owed:.3g} %)"
        yield f"{number} of {events(owed)}{share} were lost {within(account)}."
        yield f"Among them are {exits} of {max(exits, account.owed(EXITS))} exits."


def silent(account: Account, present: Present) -> Iterator[str]:
    """What did not come over an open stream."""
    yield from lost(account, present, Cause.STALLED)
    if not account.received:
        yield f"Not one event came {within(account)}, although the subscription is open."
    yield "Another subscriber that does not read, the runtime or its connection holds them up."


def losing(account: Account, present: Present) -> Iterator[str]:
    """What was never announced."""
    yield from lost(account, present, Cause.SILENT)
    yield "They were never announced, although later events were: the runtime lost them."


def few_lost(account: Account, present: Present) -> Iterator[str]:
    """What was lost, though no more than the objective and chance explain."""
    yield from lost(account, present, Cause.SILENT, Cause.STALLED)
    if gaps := account.gaps:
        yield f"{events(gaps)} never came, though a later one of the same container did."


def flapping(account: Account, _present: Present) -> Iterator[str]:
    """How often the stream ended."""
    yield f"It ended {account.ends} times {within(account)}; a kubelet gives up after 5 errors."


def down(_account: Account, present: Present) -> Iterator[str]:
    """Why the stream is down, and when the next attempt is."""
    if present.streaming:
        yield "It is up again."
    if present.stream_reason:
        yield _REASONS.get(present.stream_reason, f"Its error is {present.stream_reason}.")
    if present.stream is StreamState.CONNECTING:
        yield "The exporter is subscribing."
    elif present.retry_wall:
        yield f"The next attempt is at {clock(present.retry_wall)}."


def interrupted(account: Account, _present: Present) -> Iterator[str]:
    """What was lost while the stream was down."""
    lost_then = events(account.lost(Cause.STREAM_DOWN))
    yield f"{lost_then} were lost while it was down, {within(account)}."


def discarding(account: Account, _present: Present) -> Iterator[str]:
    """How many events the exporter dropped."""
    yield f"Events dropped {within(account)}: {account.discarded} (no room, or unreadable)."


def exits_late(account: Account, _present: Present) -> Iterator[str]:
    """How many exits were announced late."""
    slow, timed = account.slow, account.timed
    yield f"{slow} of {timed} exits {within(account)} were announced over {LATE_SECONDS:g} s late."


def shared(account: Account, _present: Present) -> Iterator[str]:
    """Who may have received whose events."""
    yield "Each event goes to one subscriber: this exporter takes events from the kubelet."
    number = events(account.lost(Cause.SHARED))
    yield f"{number} {within(account)} may have gone to the kubelet instead."


def no_events(_account: Account, present: Present) -> Iterator[str]:
    """Why there are no events."""
    if present.stream is StreamState.DISABLED:
        yield "The runtime has its events switched off."
    else:
        yield "This runtime has no event stream."
    yield _STILL_WATCHED


def not_watched(_account: Account, _present: Present) -> Iterator[str]:
    """Why the exporter does not subscribe."""
    yield "A second subscriber could harm the kubelet, or --event-stream=never is set."
    yield _STILL_WATCHED


def kernel_unseen(_account: Account, present: Present) -> Iterator[str]:
    """Why the cgroups show nothing."""
    yield f"The cgroups of the listed containers are not visible: {present.kernel_note}."
    yield "Ghosts and strays cannot be found, and an exit between two relists may go unproven."


def garbled(_account: Account, present: Present) -> Iterator[str]:
    """Which containers have such text."""
    named = ", ".join(present.garbled)
    yield f"{named or 'A container'} has {GARBLED}: {REFUSED}."


def lagging(_account: Account, _present: Present) -> Iterator[str]:
    """What follows from the exporter's lag."""
    yield "Its event loop woke up late repeatedly: the delays it measures include its own."


def complete(account: Account, _present: Present) -> Iterator[str]:
    """How many events came, and none was lost."""
    yield f"{events(account.owed())} {within(account)}, none lost."
