"""A process that the kernel forbids to connect, as SELinux would: by a seccomp filter."""

import ctypes
import errno
import platform
import struct
from typing import Final

_CONNECT: Final = {"x86_64": 42, "aarch64": 203}
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _BY_FILTER = 38, 22, 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def deny_connections() -> None:
    """From now on, connect() fails with EACCES in this process; nothing else changes."""
    number = _CONNECT[platform.machine()]
    lines = (
        (_LOAD, 0, 0, 0),  # the number of the call
        (_JUMP_IF_EQUAL, 0, 1, number),
        (_RETURN, 0, 0, _FAIL | errno.EACCES),
        (_RETURN, 0, 0, _ALLOW),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in lines))
    program = _Program(len(lines), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in (
        (_NO_NEW_PRIVILEGES, 1, 0, 0, 0),
        (_SET_SECCOMP, _BY_FILTER, ctypes.byref(program), 0, 0),
    ):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")
