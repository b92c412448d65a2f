"""Foreign bytes raise only what the code around a parser expects, in bounded time and memory."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests import ROOT
from tests.fuzz.targets import TARGETS, tried


@pytest.mark.parametrize("name", TARGETS)
def test_no_known_input_does_harm(name: str) -> None:
    target = TARGETS[name]
    accepted = [tried(target, seed) for seed in target.seeds()]
    assert any(accepted)
    for data in target.found:
        tried(target, data)


@pytest.mark.soak
@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris has no wheel for this machine")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in TARGETS]
)
def test_a_minute_of_fuzzing_finds_nothing(name: str) -> None:
    """What it finds is kept in `.cache/fuzz/found`."""
    command = (sys.executable, "-m", "tests.fuzz", name, "-max_total_time=60")
    ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, f"{ran.stdout}{ran.stderr}"[-4000:]
