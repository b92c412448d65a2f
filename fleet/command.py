"""The `report` command, and whether its verdict is a failure."""

import argparse
import os
import sys
from typing import Final

from exporter.cli import finish
from exporter.settings.declaring import Command, flags_of, from_text
from fleet.gather import gather
from fleet.prometheus import connected
from fleet.request import FailOn, ReportFormat, Request
from fleet.verdict import Decision, judge
from fleet.writing import written


async def report(request: Request) -> bool:
    """Print the report; returns whether its verdict passes `--fail-on`."""
    async with connected(request) as prometheus:
        fleet = await gather(prometheus, request)
    judgement = judge(fleet, request)
    usual = ReportFormat.TEXT if sys.stdout.isatty() else ReportFormat.MARKDOWN
    sys.stdout.write(written(fleet, request, judgement, request.output_format or usual))
    sys.stdout.flush()
    no_go, good = (judgement.verdict is each for each in (Decision.NO_GO, Decision.GO))
    failing = {FailOn.NEVER: False, FailOn.NO_GO: no_go, FailOn.NOT_GO: not good}
    return not failing[request.fail_on]


def _report(given: argparse.Namespace) -> bool:
    return finish(report(from_text(Request, vars(given), os.environ)))


REPORT: Final = Command(
    _report, "before you turn Evented PLEG on: go or no-go for a whole fleet", flags_of(Request)
)
