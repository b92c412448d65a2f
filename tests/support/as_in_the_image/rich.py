# ruff: noqa: INP001 - a folder of modules, not a package
"""A linter has rich installed here, which structlog would load at each start of a command."""

raise ImportError
