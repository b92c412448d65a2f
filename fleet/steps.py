"""What to do about a reason, in a sentence: from the row of its condition, where it has one."""

from typing import Final

from exporter.conditions.catalogue import BY_NAME
from exporter.runtimes.known import profile_of

WAIT: Final = "Let shadow-pleg run on all nodes, and repeat this report when there is more to judge"
CHECK: Final = "Run `shadow-pleg check` where the runtime is not known"
WATCH: Final = "Install shadow-pleg on the nodes that are `unwatched` below"
UPGRADE: Final = (
    "Upgrade the runtime: docs/compatibility.md has the versions on which losses can be measured"
)
# Of nodes on which some exits are undecided: where the kernel is a witness, it decides most.
WITNESS: Final = (
    "Let the kernel be a witness on all nodes (`shadow-pleg check` says what is missing): it knows"
    " of most containers whether they ran. More time does not decide it"
)
CASES: Final = (
    "Look at the UNDECIDED cases of /debug/misses: which containers are gone before a list shows"
    " them. More time does not decide it"
)


def about(condition: str) -> str:
    """What its alert's runbook is about."""
    row = BY_NAME[condition]
    return f"{row.todo}: docs/runbooks/ShadowPleg{row.alert}.md"


def turn_on(name: str, version: str) -> str:
    """How that runtime comes to announce events."""
    return f"To have events of {name} {version}: {profile_of(name, version).turn_on}"
