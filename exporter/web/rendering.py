"""The templates of the pages; two MiB that only those pay who open one."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from exporter.web.assets import address

if TYPE_CHECKING:
    import jinja2

# Nothing from elsewhere, nothing inline: what a runtime sends could not run even if it got through.
POLICY: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@functools.cache
def templates() -> jinja2.Environment:
    """The folder `templates`, escaped by default; a name that is missing is an error."""
    import jinja2  # noqa: PLC0415 - see above

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("exporter.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["address"] = address
    return environment
