"""The `report` command: where the report goes, and whether its verdict is a failure."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from exporter.cli import finish
from exporter.errors import ConfigError
from exporter.process.terminal import Progress
from exporter.settings.declaring import flags_of, from_text
from exporter.settings.parsing import Command
from fleet.gather import gather
from fleet.options import FailOn, Request
from fleet.prometheus import connected
from fleet.verdict import Decision, judge
from fleet.writing import written

_QUERIES: Final = 23
_FAILING: Final = {
    FailOn.NEVER: (),
    FailOn.NO_GO: (Decision.NO_GO,),
    FailOn.NOT_GO: (Decision.NO_GO, Decision.NOT_YET, Decision.NOT_ENOUGH),
}


async def report(request: Request) -> bool:
    """Write the report; returns whether its verdict passes `--fail-on`."""
    if request.output is not None:
        _require_writable(request.output, replace=request.force)
    with Progress() as progress:
        asking = _Asking(progress).one_more
        async with connected(request, asking) as prometheus:
            fleet = await gather(prometheus, request)
    text = written(fleet, request.standard, request.output_format)
    if request.output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        _write(request.output, text)
    return judge(fleet, request.standard).verdict not in _FAILING[request.fail_on]


class _Asking:
    """Counts the queries on a terminal."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._asked, self._began = 0, time.monotonic()

    def one_more(self) -> None:
        """Another query begins."""
        self._asked += 1
        took = time.monotonic() - self._began
        self._progress.show(
            f"asking Prometheus: query {self._asked} of about {_QUERIES}, {took:.0f} s"
        )


def _require_writable(path: Path, *, replace: bool) -> None:
    """Fail before a minute of queries rather than after."""
    if path.is_file() and not replace:
        raise ConfigError(f"--output: {str(path)!r} exists: name a new file, or add --force")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError(
            f"--output: {str(path)!r} cannot be written: name a file in a folder of yours"
        )


def _write(path: Path, text: str) -> None:
    """Write atomically via a temporary file, but directly to anything but a regular file."""
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        target = path.resolve()
        with tempfile.NamedTemporaryFile(
            "w", dir=target.parent, prefix=f".{target.name}.", encoding="utf-8", delete=False
        ) as file:
            file.write(text)
        partial = Path(file.name)
        # Apply the umask, as for any new file, instead of the temporary file's private mode.
        umask = os.umask(0)
        os.umask(umask)
        partial.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~umask)
        partial.replace(target)
    except OSError as error:
        raise ConfigError(f"--output: {str(path)!r} cannot be written: {error.strerror}") from None


def _report(given: argparse.Namespace) -> bool:
    return finish(report(from_text(Request, vars(given), os.environ)))


REPORT: Final = Command(
    _report,
    "judge a fleet by what Prometheus has recorded: go or no-go",
    flags_of(Request),
)
