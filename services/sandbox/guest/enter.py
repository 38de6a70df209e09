"""Starts a zygote inside a pod that already runs under gVisor.

    python enter.py ROOT SOCKET_FOLDER INSIDE TMP_MB NAME=VALUE... COMMAND...

Makes namespaces, in which it is root; makes the folder ROOT, read-only, with SOCKET_FOLDER mounted at INSIDE and a small
/tmp, the whole file system, so that of the pod's own nothing can be reached any more, by whatever trick; and becomes
COMMAND, with nothing but the given environment.
"""

from __future__ import annotations

import ctypes
import os
import sys

CLONE_NEW = 0x0002_0000 | 0x0400_0000 | 0x0800_0000 | 0x1000_0000 | 0x4000_0000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 4, 8, 0x20, 0x1000
MNT_DETACH = 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
PROBE = "/.writable"


def main(root: str, socket_folder: str, inside: str, tmp_mb: str, *rest: str) -> None:
    """Do it, or raise OSError."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *arguments: object) -> None:
        if getattr(libc, name)(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{name}{arguments}: {os.strerror(number)}")

    user = os.getuid()
    call("unshare", CLONE_NEW)
    with open("/proc/self/uid_map", "w") as file:
        file.write(f"0 {user} 1")
    path = os.fsencode(root)
    call("mount", path, path, None, MS_BIND, None)
    call("mount", None, path, None, MS_BIND | MS_REMOUNT | MS_RDONLY, None)
    options = f"mode=0711,size={tmp_mb}m".encode()
    call("mount", b"tmpfs", path + b"/tmp", b"tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options)
    call("mount", os.fsencode(socket_folder), path + os.fsencode(inside), None, MS_BIND, None)
    call("mount", b"/dev/null", path + b"/dev/null", None, MS_BIND, None)
    os.chdir(root)
    # On top of the old root, which is then taken away: there needs to be no folder for it.
    call("syscall", PIVOT_ROOT[os.uname().machine], b".", b".")
    call("umount2", b".", MNT_DETACH)
    os.chdir("/")
    try:
        os.close(os.open(PROBE, os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError:
        pass
    else:
        os.unlink(PROBE)
        raise OSError("this gVisor does not keep a root file system read-only")
    count = next(number for number, word in enumerate(rest) if "=" not in word)
    os.execve(rest[count], rest[count:], dict(word.split("=", 1) for word in rest[:count]))


if __name__ == "__main__":
    main(*sys.argv[1:])
