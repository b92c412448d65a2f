"""Looks for inputs that break a target: `python -m tests.fuzz NAME [FLAG OF LIBFUZZER ...]`.

What it finds is printed, and kept in `.cache/fuzz/found`: with the fix it goes into the target's
`found`, which `make test` tries. What reaches new code goes to `.cache/fuzz/NAME`, where the next
search begins.
"""

import hashlib
import os
import shutil
import sys
import tempfile

import atheris

from tests import ROOT

with atheris.instrument_imports(include=["exporter", "prometheus_client.parser", "yaml"]):
    from tests.fuzz.test_targets import TARGETS, tried

_FLAGS = ("-max_len=8192", "-timeout=60", "-rss_limit_mb=512", "-print_final_stats=1")


def main(name: str, *flags: str) -> None:
    target, cache = TARGETS[name], ROOT / ".cache" / "fuzz"
    corpus, found = cache / name, cache / "found"
    folder = tempfile.tempdir = tempfile.mkdtemp(prefix="fuzz")
    for each in (found, corpus):
        each.mkdir(parents=True, exist_ok=True)
    for seed in target.seeds():
        (corpus / hashlib.sha1(seed, usedforsecurity=False).hexdigest()).write_bytes(seed)
    # libFuzzer ends its process without cleaning up.
    if (child := os.fork()) == 0:
        given = (f"-artifact_prefix={found}/{name}-", *_FLAGS, *flags, str(corpus))
        atheris.Setup([sys.argv[0], *given], lambda data: tried(target, data))
        atheris.Fuzz()
    _, status = os.waitpid(child, 0)
    shutil.rmtree(folder)
    sys.exit(os.waitstatus_to_exitcode(status))


main(*sys.argv[1:])
