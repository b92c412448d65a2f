"""The tests of shadow-pleg."""

import os
from pathlib import Path
from typing import Final

from exporter.__main__ import OF_GRPC

ROOT: Final = Path(__file__).parents[1]

# In this process gRPC is as in `serve`; it reads that when it is imported.
os.environ.update(OF_GRPC)
