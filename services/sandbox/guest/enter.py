"""Starts a zygote inside a pod that already runs under gVisor.

    python enter.py ROOT SOCKET_FOLDER INSIDE TMP_MB COMMAND...

Makes namespaces, in which it is root; makes the folder ROOT, with SOCKET_FOLDER mounted at INSIDE and a small /tmp, the
whole file system, so that of the pod's own nothing can be reached any more, by whatever trick; and becomes COMMAND.
"""

from __future__ import annotations

import ctypes
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
namespaces = __import__("guest.namespaces", fromlist=["x"])

MS_BIND, MS_REC = 0x1000, 0x4000
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}


def main(root: str, socket_folder: str, inside: str, tmp_mb: str, *command: str) -> None:
    """Do it, or raise OSError."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *arguments: object) -> None:
        if getattr(libc, name)(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{name}{arguments}: {os.strerror(number)}")

    user = os.getuid()
    n = namespaces
    call("unshare", n.CLONE_NEWUSER | n.CLONE_NEWNS | n.CLONE_NEWNET | n.CLONE_NEWIPC | n.CLONE_NEWUTS)
    with open("/proc/self/uid_map", "w") as file:
        file.write(f"0 {user} 1")
    path = os.fsencode(root)
    call("mount", path, path, None, MS_BIND | MS_REC, None)
    options = f"mode=0711,size={tmp_mb}m".encode()
    call("mount", b"tmpfs", path + b"/tmp", b"tmpfs", n.MS_NOSUID | n.MS_NODEV | n.MS_NOEXEC, options)
    call("mount", os.fsencode(socket_folder), path + os.fsencode(inside), None, MS_BIND, None)
    os.chdir(root)
    # On top of the old root, which is then taken away: there needs to be no folder for it.
    call("syscall", PIVOT_ROOT[os.uname().machine], b".", b".")
    call("umount2", b".", n.MNT_DETACH)
    os.chdir("/")
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
