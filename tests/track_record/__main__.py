"""`python -m tests.track_record [NAME]`: reproduces the bugs of docs/track-record.md."""

import asyncio
import sys

from testbed.leftovers import sweep_abandoned
from tests.track_record.bugs import BUGS
from tests.track_record.story import NotSaidError


def main(name: str = "") -> int:
    """Reproduce that bug, or all; 1 if the exporter does not say it."""
    chosen = [bug for bug in BUGS if name in ("", bug.name)]
    if not chosen:
        known = ", ".join(bug.name for bug in BUGS)
        sys.stderr.write(f"there is no bug {name!r}; there are {known}\n")
        return 2
    lines, failed = [], False
    for bug in chosen:
        said = f"skipped: {bug.why_not}"
        if not bug.why_not:
            try:
                said = f"said after {asyncio.run(bug.reproduce(sys.stdout.write)):.1f} s"
            except (NotSaidError, TimeoutError) as error:
                said, failed = f"FAILED: {error}", True
        lines.append(f"{bug.name:18} {bug.title:18} {bug.part:20} {said}\n")
    sys.stdout.writelines(lines)
    return int(failed)


if __name__ == "__main__":
    sweep_abandoned()
    sys.exit(main(*sys.argv[1:]))
