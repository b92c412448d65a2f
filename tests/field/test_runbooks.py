"""Commands of the runbooks, as someone on call runs them."""

import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from testbed.fixtures import unavailable
from tests import ROOT

RUNBOOKS = ROOT / "docs" / "runbooks"
# Connects, and reads nothing.
DEAF = """
import socket, sys
deaf = socket.socket(socket.AF_UNIX)
deaf.connect(sys.argv[1])
print(flush=True)
sys.stdin.read()
"""


def test_a_subscriber_that_does_not_read_is_named(folder: Path) -> None:
    """Only the runtime's end of a connection has the socket's path, and that names the runtime."""
    if not shutil.which("ss"):
        unavailable("ss is missing: apt install iproute2")
    page = (RUNBOOKS / "ShadowPlegStreamStalled.md").read_text("utf-8")
    (command,) = re.findall(r"^ss .*", page, re.MULTILINE)
    with socket.socket(socket.AF_UNIX) as listening:
        path = folder / "containerd.sock"
        listening.bind(str(path))
        listening.listen()
        argv = (sys.executable, "-c", DEAF, path)
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe) as deaf:
            runtime, _ = listening.accept()
            with runtime:
                runtime.sendall(b"unread")
                # Others of this machine may have more to read.
                every = ("sh", "-c", command.partition("| head")[0])
                said = subprocess.run(every, capture_output=True, text=True, check=True).stdout
            waiting = [int(line.split()[2]) for line in said.splitlines() if line[:5] == "u_str"]
            assert waiting == sorted(waiting, reverse=True)
            (own,) = (line for line in said.splitlines() if f"pid={deaf.pid}," in line)
            assert int(own.split()[2]) > 0
            assert deaf.stdin
            deaf.stdin.close()
