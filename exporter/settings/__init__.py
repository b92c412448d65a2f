"""The operator's settings: flags, environment, files, and their parsers."""
