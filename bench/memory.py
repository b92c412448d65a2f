"""The memory of another process, as /proc has it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_KIB_OF_A_MIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Memory:
    """In MiB. `proportional`: each shared page is divided by the number of those who share it."""

    resident: float
    peak: float
    anonymous: float
    proportional: float

    def __str__(self) -> str:
        return (
            f"peak {self.peak:.1f}, anonymous {self.anonymous:.1f},"
            f" proportional {self.proportional:.1f} MiB"
        )


def memory_of(pid: int) -> Memory:
    """What it has now; OSError if there is no such process."""
    status, rollup = _read(pid, "status"), _read(pid, "smaps_rollup")
    return Memory(status["VmRSS"], status["VmHWM"], rollup["Anonymous"], rollup["Pss"])


def _read(pid: int, file: str) -> dict[str, float]:
    lines = Path(f"/proc/{pid}/{file}").read_text(encoding="ascii").splitlines()
    fields = (line.split() for line in lines if line.endswith(" kB"))
    return {name.rstrip(":"): int(kib) / _KIB_OF_A_MIB for name, kib, _ in fields}
