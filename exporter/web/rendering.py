"""The pages' templates; they take two MiB, so they are loaded on the first request."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from exporter.web.assets import address

if TYPE_CHECKING:
    import jinja2

# Nothing external, nothing inline: even injected runtime text could not run.
POLICY: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@functools.cache
def templates() -> jinja2.Environment:
    """The directory `templates`, autoescaped; an undefined name is an error."""
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
