"""What a real kubelet and its containerd said, as recorded.

`tests/traces/kubelet`: kubelet 1.36.2 with the gate PodsAPI on containerd 2.1.9, 22 static pods
that crash, fail to start, fail probes or run once; polled, and with the gate EventedPLEG. A line
has its time `t` and an `event` (without what the exporter does not read), a `pod` (WatchPodsEvent)
or what a list showed: state by id.
"""

import json
import lzma
from typing import Any, Final

from tests import ROOT

KINDS: Final = ("polled", "evented")


def rows(kind: str) -> list[dict[str, Any]]:
    """The lines of that recording."""
    path = ROOT / f"tests/traces/kubelet/1.36.2-{kind}.jsonl.xz"
    return [json.loads(line) for line in lzma.decompress(path.read_bytes()).splitlines()]
