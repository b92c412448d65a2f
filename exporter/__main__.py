"""The entry point, and the only module that knows exit codes.

0: done, or stopped by a signal. 1: failed. 2: bad usage or configuration. `condition` has those of
node-problem-detector's plugins: 0 no problem, 1 a problem, 2 not known.
"""

import os
import signal
import sys

# Import nothing more before the signal handlers are set: `typing` alone takes 10 ms.
_STDERR = 2
OF_GRPC = {
    # gRPC's own lines on stderr are for its developers; our own log reports what failed.
    "GRPC_VERBOSITY": "NONE",
    # The thread that waits for calls also reads the socket. With gRPC's pool of threads, events at
    # most nodes' rates take a quarter more CPU. A gRPC that has only the pool ignores this.
    "GRPC_EXPERIMENTS": "-event_engine_client",
}


def _fill_standard_streams() -> None:
    """Open closed standard streams: else a file gets the number, and is written to as one."""
    # Python sets a stream to None if it was closed at the start. Writing to a closed stdout stays
    # an error: otherwise the output would be lost silently.
    for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        if stream is None:
            os.open(os.devnull, os.O_WRONLY if number == _STDERR else os.O_RDONLY)
    sys.stdout = sys.stdout or os.fdopen(_STDERR - 1, "w")
    sys.stderr = sys.stderr or os.fdopen(_STDERR, "w")


def _stop(_signum: int, _frame: object) -> None:
    # Not an exception: it could be raised inside any import and be swallowed there.
    os._exit(0)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    _fill_standard_streams()
    # gRPC reads these variables when it is imported.
    for name, text in OF_GRPC.items():
        os.environ.setdefault(name, text)
    # Until the command installs its own signal handlers, simply stopping is fine.
    # SIGINT first: Python's default handler raises KeyboardInterrupt at any point.
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, _stop)
    # Importing takes a while, and a signal may come at any time.
    from exporter.cli import run  # noqa: PLC0415 - see above
    from exporter.errors import ConfigError, OutputError, ShadowPlegError, UnknownError, say  # noqa: PLC0415 - as above

    try:
        return 0 if run(sys.argv[1:] if arguments is None else arguments) else 1
    except UnknownError as error:
        try:
            say(f"{error}\n")
        except OutputError:
            # Exit code 1 would be a problem of the node.
            _discard_stdout()
        return 2
    except ConfigError as error:
        _complain(error)
        return 2
    except ShadowPlegError as error:
        if isinstance(error, OutputError):
            _discard_stdout()
        if str(error):
            _complain(error)
        return 1


def _discard_stdout() -> None:
    """Nobody reads stdout, or it is full: the interpreter's own flush must not fail, too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(error: object) -> None:
    """Write one line to stderr. Text of a server or a file must not control the terminal."""
    from exporter.errors import printable  # noqa: PLC0415 - as above

    sys.stderr.write(f"shadow-pleg: {printable(str(error))}\n")


if __name__ == "__main__":
    sys.exit(main())
