"""The tests of shadow-pleg."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
