"""Which events a stream owes and which this runtime never sends: applies the profile's rules.

Blind spots, on CRI-O. A lost DELETED of a container waits while its stopped sandbox is listed, and
looks like one that is never sent once that is gone. A lost STOPPED does if a READY sandbox was
removed in one call. Both do if no list and no event has shown the sandbox. A lost DELETED of one
that nothing shows to have run looks like a failed start's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exporter.model.events import Lifecycle, ListedState, ObjectKind
from exporter.model.labels import Never

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exporter.pleg.entry import Entry
    from exporter.runtimes.runtime import Profile


def is_owed(entry: Entry, event: Lifecycle) -> bool:
    """Whether a proven event must be announced at all.

    A container that never ran owes no STARTED, whatever the kernel saw of it, and no STOPPED.
    """
    if event is Lifecycle.STARTED:
        return entry.ran is not False
    if event is not Lifecycle.DIED or entry.kind is ObjectKind.SANDBOX:
        return True
    return entry.ran is True or entry.exit_listed or entry.lasted


def is_undecidable(entry: Entry, event: Lifecycle) -> bool:
    """Whether this exit may be that of a failed start, so that its announcement may not be owed.

    Neither lists nor stream showed the container run, so only `ContainerStatus` or the kernel can
    tell.
    """
    return (
        event is Lifecycle.DIED
        and entry.kind is not ObjectKind.SANDBOX
        and entry.ran is None
        and entry.exit_listed
    )


def waits_for_list(entry: Entry, event: Lifecycle, profile: Profile) -> bool:
    """Whether an event that only the kernel has proved cannot be judged yet.

    The lists still show an older state, so the runtime may not know of the event; or
    `ContainerStatus` may yet say that the start failed.
    """
    return entry.behind(event) or start_in_doubt(entry, profile)


def waits_for_sandbox(
    entry: Entry, event: Lifecycle, sandbox: Entry | None, profile: Profile
) -> bool:
    """Whether the container disappeared in a removal of its sandbox that is not complete yet."""
    return (
        event is Lifecycle.REMOVED
        and Never.REMOVED_WITH_SANDBOX in profile.never
        and not entry.sandbox_was_ready
        and sandbox is not None
        and sandbox.state in {ListedState.EXITED, ListedState.UNKNOWN}
    )


def never_rule(
    entry: Entry, event: Lifecycle, sandbox: Entry | None, profile: Profile
) -> Never | None:
    """The rule by which this runtime never announces that event of that container; None if none."""
    if entry.kind is ObjectKind.SANDBOX:
        rules = _sandbox_rules(entry, event)
    else:
        rules = _container_rules(entry, event, sandbox)
    for rule in rules:
        if rule in profile.never:
            return rule
    return None


def _sandbox_rules(entry: Entry, event: Lifecycle) -> Iterator[Never]:
    """Rules that match what happened to a sandbox, regardless of the runtime."""
    if event is Lifecycle.REMOVED:
        yield Never.SANDBOX_REMOVED
    elif event is Lifecycle.DIED:
        if entry.gone_while_running:
            yield Never.FORCED_REMOVAL
        if _may_have_failed(entry):
            yield Never.SANDBOX_FAILED


def _may_have_failed(sandbox: Entry) -> bool:
    """Whether no list and no event shows that the sandbox was ever set up."""
    return sandbox.ran is None and sandbox.steps[Lifecycle.CHANGED].announced is None


def _container_rules(entry: Entry, event: Lifecycle, sandbox: Entry | None) -> Iterator[Never]:
    """Rules that match what happened to a container, regardless of the runtime."""
    if event is Lifecycle.DIED:
        if entry.ran is False:
            yield Never.FAILED_START
        if entry.gone_while_running and (sandbox is None or _force_removed(sandbox)):
            yield Never.FORCED_REMOVAL
    elif event is Lifecycle.REMOVED:
        if entry.deleted_below:
            yield Never.DELETED_BELOW
        # The lists are not atomic: a stopping sandbox may disappear one relist later. One that
        # neither list nor event has shown may have gone at the same time.
        is_gone = sandbox is None or sandbox.state is None
        if is_gone and not entry.sandbox_was_ready:
            yield Never.REMOVED_WITH_SANDBOX
        if entry.ran is False or not (entry.ran or entry.exit_listed):
            yield Never.FAILED_START_REMOVED


def _force_removed(sandbox: Entry) -> bool:
    return sandbox.gone_while_running and sandbox.steps[Lifecycle.DIED].announced is None


def is_gap(entry: Entry, event: Lifecycle, profile: Profile) -> bool:
    """Whether later announcements show that a step neither proven nor announced has happened."""
    if event <= entry.excused_up_to:
        return False
    is_sandbox = entry.kind is ObjectKind.SANDBOX
    failed = is_sandbox and Never.SANDBOX_FAILED in profile.never and _may_have_failed(entry)
    if event is Lifecycle.CHANGED:
        if is_sandbox and Never.SANDBOX_CREATED in profile.never:
            return False
        if not failed:
            return True
    if entry.ran is not None:
        return entry.ran
    stopped = entry.steps[Lifecycle.DIED].announced is not None
    if is_sandbox:
        # The removal of a sandbox that no list showed READY announces STOPPED, too.
        decides = not (entry.listed and failed)
    else:
        decides = Never.STOPPED_ONLY_IF_RAN not in profile.never
    return stopped and decides


def start_in_doubt(entry: Entry, profile: Profile) -> bool:
    """Whether only `ContainerStatus` can say if this listed, exited container ever ran."""
    if entry.kind is ObjectKind.SANDBOX or entry.ran is not None:
        return False
    died = entry.steps[Lifecycle.DIED]
    unexplained = died.announced is not None and Never.STOPPED_ONLY_IF_RAN in profile.never
    return entry.state is ListedState.EXITED and (died.waits or unexplained)
