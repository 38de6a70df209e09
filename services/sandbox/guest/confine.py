"""How a worker gives up what generated code must not have, and how the zygote prepares for it.

What all workers share, the zygote does to itself once; the rest is left to each worker, in as few system calls as it
takes.
"""

from __future__ import annotations

import os
import resource
import time

from .children import SIGKILL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .children import Children

MIB = 1 << 20
# A user that no process has and no worker gets.
NOBODY = 19_999
STRAYS_ATTEMPTS = 1000
# Processes and threads of all workers of a pod, with the service's own.
SHARED_PROCESSES = 4096
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38


def _limit(which: int, value: int, more: int = 0) -> None:
    hard = resource.getrlimit(which)[1]
    most = value + more if hard == resource.RLIM_INFINITY else min(value + more, hard)
    resource.setrlimit(which, (min(value, most), most))


class Confinement:
    """The rights that workers are left with."""

    def __init__(self, message: dict[str, Any]) -> None:
        limits = message["limits"]
        self._tmp: str = message["tmp"]
        self._separate_users: bool = message["separate_users"]
        self._namespaces: Any = None
        self._libc: Any = None
        self._processes = int(limits["processes"])
        self._cpu_seconds = int(limits["cpu_seconds"])
        self._strays = _STRAYS[message["strays"]]
        if self._strays is _kill_orphans:
            os.stat(f"/proc/self/task/{os.getpid()}/children")  # Fails here, loudly, on a kernel without it.
        null = os.open("/dev/null", os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.close(null)
        if self._separate_users:
            os.setgroups([])
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_FSIZE, int(limits["file_mb"]) * MIB)
        _limit(resource.RLIMIT_NOFILE, int(limits["files"]))
        self._memory = int(limits["memory_mb"]) * MIB
        if message["namespaces"]:
            from .namespaces import Namespaces

            self._namespaces = Namespaces(message["socket_folder"], self._tmp, int(limits["tmp_mb"]))
        # Inside gVisor or bubblewrap the end of the zygote ends everything; elsewhere a process must ask for it.
        if message["die_with_parent"]:
            import ctypes

            self._libc = ctypes.CDLL(None)
            self._libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            self._die_with_parent()

    def limit_memory(self) -> None:
        """Limit the address space, once everything is loaded."""
        _limit(resource.RLIMIT_AS, self._memory)

    def before_fork(self) -> None:
        """Make the next child the first process of namespaces of its own, if workers have some."""
        if self._namespaces is not None:
            self._namespaces.before_fork()

    def confine(self, user: int) -> None:
        """Give up everything that the source must not have; called in the worker."""
        os.setsid()
        if self._namespaces is not None:
            self._namespaces.enter()
            folder = self._tmp
        else:
            folder = self.folder(user)
            os.mkdir(folder, 0o700)
            if self._separate_users:
                os.chown(folder, user, user)
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
        if self._libc is not None:
            self._die_with_parent()
        os.chdir(folder)
        os.environ["TMPDIR"] = os.environ["HOME"] = folder
        # A second before the kill comes a signal that says why.
        _limit(resource.RLIMIT_CPU, self._cpu_seconds, more=1)
        if self._namespaces is None:
            _limit(resource.RLIMIT_NPROC, self._processes)
        else:
            # The kernel counts those of all workers together: this bounds what one can do to the pod.
            _limit(resource.RLIMIT_NPROC, SHARED_PROCESSES)
            self._namespaces.seal()

    def folder(self, user: int) -> str:
        """The folder of a worker, in the zygote's view."""
        return f"{self._tmp}/{user}"

    def clear(self, user: int, children: Children) -> bool:
        """Kill what a dead worker left running and delete its files; return whether nothing is left running."""
        if self._namespaces is not None:
            return True  # Both went with its first process.
        for _ in range(STRAYS_ATTEMPTS):
            if not self._strays(user, children):
                _remove(self.folder(user))
                return True
            time.sleep(0.001)
        return False

    def _die_with_parent(self) -> None:
        self._libc.prctl(PR_SET_PDEATHSIG, SIGKILL)
        self._libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _kill_as_user(user: int, children: Children) -> bool:
    """Kill every process of ``user``; return whether there was one. Only inside gVisor.

    The kernel lets a process signal those whose real or saved user is its own real or effective one. The real one
    meanwhile is nobody's, so that processes of root, such as workers that have not become their user yet, are not
    hit, and the saved one stays root, so that none of ``user`` can hit back. A change of users that fails raises, and
    that ends the sandbox.
    """
    os.setresuid(NOBODY, user, 0)
    try:
        if os.getresuid() != (NOBODY, user, 0):
            raise OSError("the zygote could not become the user of a worker")
        os.kill(-1, SIGKILL)
        hit = True
    except (ProcessLookupError, PermissionError):
        hit = False
    finally:
        os.setresuid(0, 0, 0)
    children.reap()
    return hit


def _kill_orphans(user: int, children: Children) -> bool:
    """Kill the orphans of ``user``, which have become children of the zygote; return whether there was one.

    For plain processes on a host. It can hit nothing but a child that has not been waited for, whose number so cannot
    have gone to another process.
    """
    children.reap()
    hit = False
    for pid in children.orphans():
        with open(f"/proc/{pid}/status") as status:
            users = [line.split()[1:] for line in status if line.startswith("Uid:")]
        if users == [[str(user)] * 4]:
            os.kill(pid, SIGKILL)
            hit = True
    children.reap()
    return hit


def _kill_none(_user: int, children: Children) -> bool:
    children.reap()
    return False


# What is done about processes that outlive their worker, by what the host says. Where users are shared, nobody knows
# whose an orphan is: the end of the sandbox ends it. In namespaces there is none.
_STRAYS: dict[str, Callable[[int, Children], bool]] = {
    "user": _kill_as_user,
    "orphans": _kill_orphans,
    "left": _kill_none,
}


def _remove(folder: str) -> None:
    """Delete a folder and what is in it, whatever its owner did to it, without following links."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return
    except OSError:
        pass
    else:
        return
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    _remove(entry.path)
                else:
                    os.unlink(entry.path)
        os.rmdir(folder)
    except (OSError, RecursionError):
        pass  # The directory is bounded in size and goes with the sandbox.
