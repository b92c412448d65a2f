"""Builds the image: `build` is the command, `assemble` runs inside the build."""
