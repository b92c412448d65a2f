"""Every parser of foreign bytes, by name."""

from typing import Final

from tests.fuzz import of_files, of_runtimes, of_servers

TARGETS: Final = of_runtimes.TARGETS | of_files.TARGETS | of_servers.TARGETS
