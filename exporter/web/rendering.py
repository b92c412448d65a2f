"""The templates of the pages; two MiB that only those pay who open one."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2


@functools.cache
def templates() -> jinja2.Environment:
    """The folder `templates`, escaped by default; a name that is missing is an error."""
    import jinja2  # noqa: PLC0415 - see above

    return jinja2.Environment(
        loader=jinja2.PackageLoader("exporter.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
