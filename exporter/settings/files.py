"""Opens and reads files named by an operator, without ever blocking on a pipe."""

import os
import stat
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading; OSError, or ValueError if it is anything else."""
    # os.fdopen() would leave the descriptor of a directory open.
    opened = open(path, "rb", opener=_without_blocking)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
        opened.close()
        raise ValueError("is not a file")
    return opened


def read_file(path: Path, largest: int) -> bytes:
    """The content of a regular file of at most `largest` bytes; ValueError says why not."""
    try:
        with open_file(path) as opened:
            content = opened.read(largest + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {os.strerror(error.errno or 0)}") from None
    if len(content) > largest:
        raise ValueError(f"is larger than {largest // 1024} KiB")
    return content


def parsed_yaml(content: bytes) -> Any:  # noqa: ANN401 - what a file says
    """One YAML document, {} if it is empty; ValueError if it is not YAML, or has a key twice."""
    import yaml  # noqa: PLC0415 - a MiB, which few need

    class Loader(yaml.SafeLoader):
        def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 - its signature
            pairs = node.value if isinstance(node, yaml.MappingNode) else ()
            keys = [key.value for key, _ in pairs if isinstance(key, yaml.ScalarNode)]
            for twice in (key for key in keys if keys.count(key) > 1):
                raise ValueError(f"names {twice!r} twice")
            try:
                return super().construct_object(node, deep)
            except (AttributeError, LookupError, ValueError):
                tag = node.tag.rpartition(":")[2]
                raise yaml.MarkedYAMLError(
                    problem=f"this is no {tag}", problem_mark=node.start_mark
                ) from None

    try:
        # Of a stream, unlike of bytes, an error quotes nothing: it could be a secret.
        said = yaml.load(BytesIO(content), Loader)  # noqa: S506 - a safe one
    except yaml.YAMLError as error:
        raise ValueError(f"is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ValueError("is not YAML: too deep") from None
    return {} if said is None else said


def _without_blocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
