"""The bugs of docs/track-record.md."""

import pytest

from testbed.fixtures import unavailable
from tests.track_record.bugs import BUGS, Bug


@pytest.mark.soak
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
async def test_the_exporter_says_what_the_track_record_tells(bug: Bug) -> None:
    if bug.why_not:
        unavailable(bug.why_not)
    await bug.reproduce()
