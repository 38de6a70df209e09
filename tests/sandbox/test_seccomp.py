"""The filter of system calls, run by a small interpreter of its language."""

from __future__ import annotations

import errno
import struct

import pytest

from spade_rl.sandbox.guest.seccomp import ALLOW, KILL, REFUSE, program

X86, ARM = (0xC000_003E, "x86_64"), (0xC000_00B7, "aarch64")
THREAD = 0x3D0F00  # What glibc gives clone for a thread.
FORK = 0x0120_0011
NEW_USER, NEW_PROCESSES = 0x1000_0000, 0x2000_0000


def run(code: bytes, number: int, architecture: int, first: int = 0) -> int:
    data = struct.pack("IIQQ", number, architecture, 0, first)
    lines = list(struct.iter_unpack("HBBI", code))
    at = accumulator = 0
    while True:
        operation, yes, no, value = lines[at]
        at += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("I", data, value)
        elif operation == 0x06:
            return value
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[operation]
            at += yes if holds else no


def refused(error: int) -> int:
    return REFUSE | error


@pytest.mark.parametrize(
    ("which", "number", "first", "verdict"),
    [
        (X86, 0, 0, ALLOW),  # read
        (X86, 56, THREAD, ALLOW),
        (X86, 56, FORK, refused(errno.EAGAIN)),
        (X86, 56, THREAD | NEW_USER, refused(errno.EPERM)),
        (X86, 56, FORK | NEW_PROCESSES, refused(errno.EPERM)),
        (X86, 56, THREAD | 0x8000, refused(errno.EPERM)),
        (X86, 57, 0, refused(errno.EAGAIN)),  # fork
        (X86, 58, 0, refused(errno.EAGAIN)),  # vfork
        (X86, 435, 0, refused(errno.ENOSYS)),  # clone3
        (X86, 272, 0, refused(errno.EPERM)),  # unshare
        (X86, 308, 0, refused(errno.EPERM)),  # setns
        (X86, 165, 0, refused(errno.EPERM)),  # mount
        (X86, 166, 0, refused(errno.EPERM)),  # umount2
        (X86, 442, 0, refused(errno.EPERM)),  # mount_setattr
        (X86, 101, 0, refused(errno.EPERM)),  # ptrace
        (X86, 157, 1, refused(errno.EPERM)),  # prctl(PR_SET_PDEATHSIG)
        (X86, 157, 15, ALLOW),  # prctl(PR_SET_NAME)
        (X86, 0x4000_0000 | 56, THREAD, refused(errno.ENOSYS)),
        (ARM, 63, 0, ALLOW),  # read
        (ARM, 220, THREAD, ALLOW),
        (ARM, 220, FORK, refused(errno.EAGAIN)),
        (ARM, 97, 0, refused(errno.EPERM)),  # unshare
        (ARM, 167, 1, refused(errno.EPERM)),
        (ARM, 57, 0, ALLOW),  # close
    ],
)
def test_a_worker_keeps_what_it_needs(which: tuple[int, str], number: int, first: int, verdict: int) -> None:
    architecture, machine = which
    assert run(program(machine), number, architecture, first) == verdict


def test_calls_of_another_architecture_end_the_worker() -> None:
    assert run(program("x86_64"), 0, ARM[0]) == KILL


def test_a_machine_without_a_filter_is_refused() -> None:
    with pytest.raises(OSError, match="riscv64"):
        program("riscv64")
