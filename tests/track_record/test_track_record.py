"""The bugs of docs/track-record.md, made to happen."""

import io
import sys
from contextlib import redirect_stdout

import pytest

from testbed.fixtures import unavailable
from tests.track_record import happening
from tests.track_record.bugs import BUGS, Bug, Story


@pytest.mark.soak
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
async def test_the_exporter_says_what_the_track_record_tells(bug: Bug) -> None:
    if bug.why_not:
        unavailable(bug.why_not)
    show = sys.stdout.write
    show(f"{bug.name}: {bug.what}\n  {bug.link or bug.title}, on {bug.part}\n")
    story, log = Story(bug.says, show), io.StringIO()
    happens = getattr(happening, bug.name.replace("-", "_"))
    try:
        # The exporter's whole log, which is written when it ends.
        with redirect_stdout(log):
            await happens(story)
    except BaseException:
        show(log.getvalue())
        raise
    show("\n")
