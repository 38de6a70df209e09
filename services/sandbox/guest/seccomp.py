"""Forbids a worker the system calls with which it could undo its namespaces, for good.

Only where workers share a user, in a pod. There the kernel counts processes by user, for all workers together, so a
worker gets none besides itself: threads it may have. That also keeps everything that it is within one process, which
the kernel ends when the zygote ends.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

PR_SET_PDEATHSIG = 1
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
ALLOW, KILL, REFUSE = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
# Offsets in the structure that a filter sees: the call's number, the architecture, the first argument's low half.
NUMBER, ARCHITECTURE, FIRST = 0, 4, 16
LOAD, EQUAL, ANY_BIT, AT_LEAST, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
X32 = 0x4000_0000
CLONE_THREAD = 0x0001_0000
# New namespaces of any kind, and a parent other than the zygote.
CLONE_FORBIDDEN = 0x7E02_0000 | 0x8000
CLONE3 = 435
# fork, vfork (where there are such), clone, prctl, and what changes mounts, namespaces or other processes.
_CALLS = {
    "x86_64": (0xC000_003E, (57, 58), 56, 157, (101, 155, 161, 165, 166, 272, 308, 310, 311)),
    "aarch64": (0xC000_00B7, (), 220, 167, (117, 41, 51, 40, 39, 97, 268, 270, 271)),
}
# open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr: of one number everywhere.
_NEWER = (428, 429, 430, 431, 432, 433, 442)


def program(machine: str) -> bytes:
    """Return the filter for a machine. Raises OSError for one that it is not written for."""
    if machine not in _CALLS:
        raise OSError(errno.ENOSYS, f"there is no filter of system calls for {machine}")
    architecture, forks, clone, prctl, refused = _CALLS[machine]
    lines: list[tuple[int, int, int, int]] = []

    def add(code: int, value: int, yes: int = 0, no: int = 0) -> None:
        lines.append((code, yes, no, value))

    add(LOAD, ARCHITECTURE)
    add(EQUAL, architecture, yes=1)
    add(RETURN, KILL)
    add(LOAD, NUMBER)
    if machine == "x86_64":
        add(AT_LEAST, X32, no=1)
        add(RETURN, REFUSE | errno.ENOSYS)
    for number, error in [(CLONE3, errno.ENOSYS), *((call, errno.EAGAIN) for call in forks)]:
        add(EQUAL, number, no=1)
        add(RETURN, REFUSE | error)
    for number in (*refused, *_NEWER):
        add(EQUAL, number, no=1)
        add(RETURN, REFUSE | errno.EPERM)
    add(EQUAL, clone, no=5)
    add(LOAD, FIRST)
    add(ANY_BIT, CLONE_FORBIDDEN, no=1)
    add(RETURN, REFUSE | errno.EPERM)
    add(ANY_BIT, CLONE_THREAD, yes=4)
    add(RETURN, REFUSE | errno.EAGAIN)
    add(EQUAL, prctl, no=2)
    add(LOAD, FIRST)
    add(EQUAL, PR_SET_PDEATHSIG, yes=1)
    add(RETURN, ALLOW)
    add(RETURN, REFUSE | errno.EPERM)
    return b"".join(struct.pack("HBBI", *line) for line in lines)


class Filter:
    """The filter, ready to be installed after a fork."""

    def __init__(self, libc: ctypes.CDLL) -> None:
        code = program(os.uname().machine)
        self._libc = libc
        self._code = ctypes.create_string_buffer(code, len(code))
        count = len(code) // 8
        self._program = ctypes.create_string_buffer(struct.pack("HP", count, ctypes.addressof(self._code)))

    def install(self) -> None:
        """Install it in this process, for good; it must have no way to new privileges. Raises OSError."""
        if self._libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, self._program, 0, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"a filter of system calls: {os.strerror(number)}")
