"""The templates for the output of commands."""

import jinja2

from exporter.errors import printable


def templates(package: str, *, keep_trailing_newline: bool = False) -> jinja2.Environment:
    """A package's text templates; they escape foreign texts, which must not control a terminal."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=False,  # noqa: S701 - not HTML
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=keep_trailing_newline,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: printable(value) if isinstance(value, str) else value,
    )
