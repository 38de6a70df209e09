"""Namespaces for each worker, where users of their own cannot be had: in a pod that already runs under gVisor.

The zygote is root in a user namespace that ``enter.py`` made, with a root file system in which there is nothing but
the baked one, read-only. Each worker is the first process of its own process namespace, so that it sees no other
process and its end is the end of all that it started; its files, network, System V objects and names are its own too.
When it has made them, it drops every capability for good, and with them the system calls that could bring them back.
"""

from __future__ import annotations

import ctypes
import os

from .seccomp import Filter

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MNT_DETACH = 2
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_VERSION = 0x2008_0522
LAST_CAPABILITY = 63


class Namespaces:
    """Makes them. ``socket_folder`` is hidden from workers; ``tmp`` becomes a private one of ``tmp_mb``."""

    def __init__(self, socket_folder: str, tmp: str, tmp_mb: int) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._socket_folder = socket_folder.encode()
        self._tmp = tmp.encode()
        self._options = f"mode=0700,size={tmp_mb}m".encode()
        # Nothing that is executed later can gain what is not in the bounding set.
        for capability in range(LAST_CAPABILITY + 1):
            if self._libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
                break  # The last that this kernel knows.
        self._call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        self._filter = Filter(self._libc)

    def before_fork(self) -> None:
        """Make the next child of the zygote the first process of a namespace."""
        self._call("unshare", CLONE_NEWPID)

    def enter(self) -> None:
        """Make the other namespaces and drop all capabilities; called in the worker."""
        self._call("unshare", CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)
        self._call("umount2", self._socket_folder, MNT_DETACH)
        flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
        self._call("mount", b"tmpfs", self._tmp, b"tmpfs", flags, self._options)
        header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
        self._call("capset", header, (ctypes.c_uint32 * 6)())

    def seal(self) -> None:
        """Forbid the system calls that could undo it; called last."""
        self._filter.install()

    def _call(self, name: str, *arguments: object) -> None:
        if getattr(self._libc, name)(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")
