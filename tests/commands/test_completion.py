"""`completion`: what a shell offers after a tab."""

import subprocess

import pytest

from exporter.cli import COMMANDS
from tests.support.commands import run_here

pytestmark = [pytest.mark.quick, pytest.mark.usefixtures("borrowed_process")]

# What was typed, and what bash offers then.
OFFERED = (
    ("re", "record replay report"),
    ("serve --relist-t", "--relist-timeout --relist-threshold"),
    ("serve --log.level ", "debug info warn error"),
    ("replay --output-format ", "text json"),
    ("replay /proc/sys/kernel/osrel", "/proc/sys/kernel/osrelease"),
    ("record --output /proc/sys/kernel/osrel", "/proc/sys/kernel/osrelease"),
    ("completion ", "bash zsh fish"),
    ("check --outp", "--output-format"),
)
# bash calls the function with the command, the word and the one before it.
ASK = """
offer() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_shadow_pleg "$1" "${@: -1}" "${@: -2:1}"
          printf '%s\\n' "${COMPREPLY[*]}"; }
"""


def test_bash_completes(capsys: pytest.CaptureFixture[str]) -> None:
    """Commands, flags, their words, and files."""
    script = run_here(capsys, "completion", "bash").out
    asked = "".join(
        "offer shadow-pleg " + " ".join(f"'{word}'" for word in typed.split(" ")) + "\n"
        for typed, _ in OFFERED
    )
    # Without what makes the shell ask: complete -F.
    done = subprocess.run(
        ["bash", "--norc"], input=script + ASK + asked, capture_output=True, text=True, check=True
    )
    offered = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert offered == [words for _, words in OFFERED], done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_know_all_commands_and_flags(
    capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    """Each with a few words of what it means."""
    script = run_here(capsys, "completion", shell).out
    for name, command in COMMANDS.items():
        assert f"{name}" in script
        assert command.text in script
        for flag in command.flags:
            assert flag.flag.removeprefix("--") in script
    assert "pause between two relists" in script
    assert "SHADOW_PLEG_" not in script
