"""The process of one sandbox: started so that it cannot outlive the service, watched, killed, cleaned up.

Four ways to start the same zygote: in gVisor, next to the service in a pod that runs under gVisor, under bubblewrap, or
as a plain process. In each the process ends
when the service does, however that ends: the kernel kills it (PR_SET_PDEATHSIG), and what it started ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import spade_rl
from spade_rl.config import Isolation
from spade_rl.errors import SandboxError
from spade_rl.sandbox import bundle, guest
from spade_rl.sandbox.cgroup import OVERHEAD_BYTES, Cgroup, Cgroups, find_cgroups, remove_stale_cgroups
from spade_rl.sandbox.limits import FIRST_USER, USERS, Limits
from spade_rl.sandbox.rootfs import GUEST, PYTHON, SOCKET_FOLDER, Interpreter
from spade_rl.sandbox.runtime import Runtime, die_with_parent, pod_command

DIAGNOSTICS_BYTES = 8192
FOLDER_PREFIX = "spade-sandbox-"
LOCK = "lock"
END_SECONDS = 20.0
# Users of workers on the host, for the weak level under root: far from any that a system gives away.
HOST_FIRST_USER = 1_500_000_000
HOST_RANGES = 6_000
# Without gVisor all zygotes of the host see each other's workers, and each ends what it finds in its own range of
# users: no two sandboxes may share one. The start differs from service to service.
_host_ranges = itertools.count(int.from_bytes(os.urandom(2), "big"))


@dataclass(frozen=True, slots=True)
class Home:
    """Where a service keeps its sandboxes, and what they are made of."""

    folder: Path
    root: Path
    interpreter: Interpreter
    runtime: Runtime
    limits: Limits
    # Where sandboxes get a cgroup each, if they do.
    cgroups: Cgroups | None = None


@dataclass(frozen=True, slots=True)
class GuestSetup:
    """What the zygote is told about its surroundings."""

    first_user: int
    separate_users: bool
    die_with_parent: bool
    # Whether workers make namespaces of their own.
    namespaces: bool
    # What the zygote does about processes that outlive their worker: guest/confine.py knows the words.
    strays: str
    tmp: str
    path: tuple[str, ...]


class SandboxProcess:
    """One running sandbox process. Make it with ``launch``."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        folder: Path,
        output: int,
        on_exit: Callable[[], None],
        cgroup: Cgroup | None,
    ) -> None:
        self._process = process
        self._cgroup = cgroup
        self._was_killed = False
        self._folder = folder
        self._output = output
        self._said = b""
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        os.set_blocking(output, False)
        self._loop.add_reader(output, self._read)
        self.ended = asyncio.Event()
        # Not a pidfd: gVisor, which this service may run under, has none.
        threading.Thread(target=self._wait, name=f"sandbox-{process.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        """The process that the service started."""
        return self._process.pid

    def diagnostics(self) -> str:
        """Return the last line that the sandbox wrote before it served."""
        lines = self._said.decode(errors="replace").strip().splitlines()
        return lines[-1][:500] if lines else f"it ended with status {self._process.returncode}"

    def out_of_memory(self) -> bool:
        """Whether the kernel ended processes of it because of its cgroup's limit."""
        return self._was_killed or (self._cgroup is not None and self._cgroup.killed())

    def kill(self) -> None:
        """End the sandbox with all that runs in it."""
        if self._process.returncode is None:
            self._process.kill()

    def kill_after(self, seconds: float) -> None:
        """Kill it if it has not ended by itself by then."""
        self._loop.call_later(seconds, self.kill)

    def _read(self) -> None:
        try:
            data = os.read(self._output, 65536)
        except BlockingIOError:
            return
        if data:
            # Only the beginning is kept; the rest is read and dropped, so that nobody waits for it.
            self._said = (self._said + data)[:DIAGNOSTICS_BYTES]
        else:
            self._loop.remove_reader(self._output)

    def _wait(self) -> None:
        self._process.wait()
        # Without a loop there is nobody left to tell.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._exited)
        if self._cgroup is not None:
            self._cgroup.remove()

    def _exited(self) -> None:
        self._read_rest()
        os.close(self._output)
        if self._process.stdin is not None:
            self._process.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self.ended.set()
        self._on_exit()

    def _read_rest(self) -> None:
        self._loop.remove_reader(self._output)
        with contextlib.suppress(BlockingIOError):
            self._said = (self._said + os.read(self._output, DIAGNOSTICS_BYTES))[:DIAGNOSTICS_BYTES]


def setup_of(home: Home, name: str) -> GuestSetup:
    """Return what the zygote of sandbox ``name`` must know."""
    inside = tuple(bundle.guest_path(home.interpreter.version))
    match home.runtime.isolation:
        case Isolation.GVISOR if home.runtime.pod:
            return GuestSetup(FIRST_USER, False, True, True, "left", "/tmp", inside)
        case Isolation.GVISOR:
            return GuestSetup(FIRST_USER, True, False, False, "user", "/tmp", inside)
        case Isolation.BUBBLEWRAP:
            return GuestSetup(FIRST_USER, False, False, False, "left", "/tmp", inside)
        case Isolation.PROCESS:
            parents = [Path(spade_rl.__file__).parents[1]]
            parents += [] if home.interpreter.numpy is None else [home.interpreter.numpy.parent]
            packages = tuple(map(str, parents))
            first = HOST_FIRST_USER + next(_host_ranges) % HOST_RANGES * USERS
            separate = os.geteuid() == 0
            strays, tmp = "orphans" if separate else "left", str(home.folder / name / "tmp")
            return GuestSetup(first, separate, True, False, strays, tmp, packages)


def socket_folder(home: Home, name: str) -> Path:
    """Return the folder on the host that holds the socket of a sandbox."""
    return home.folder / name / "socket"


def launch(home: Home, name: str, on_exit: Callable[[], None]) -> SandboxProcess:
    """Start the process of sandbox ``name``, whose socket is listening already. ``on_exit`` is called when it ends."""
    folder = home.folder / name
    sockets = socket_folder(home, name)
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(folder)}
    match home.runtime.isolation:
        case Isolation.GVISOR if home.runtime.pod:
            command = [*pod_command(home.root, sockets, home.limits.tmp_mb, bundle.guest_environment())]
            command += [PYTHON, *bundle.PYTHON_ARGUMENTS, GUEST, bundle.SOCKET]
        case Isolation.GVISOR:
            config = bundle.oci_config(root=home.root, socket_folder=sockets, limits=home.limits)
            (folder / "config.json").write_text(json.dumps(config))
            command = [*home.runtime.command, "run", f"--bundle={folder}", name]
        case Isolation.BUBBLEWRAP:
            command = [*home.runtime.command, *_bubblewrap_arguments(home, sockets)]
        case Isolation.PROCESS:
            (folder / "tmp").mkdir(mode=0o711)
            environment.update(bundle.ENVIRONMENT)
            command = [str(home.interpreter.executable), *bundle.PYTHON_ARGUMENTS]
            command += [str(Path(guest.__file__).with_name("main.py")), str(sockets / "host.sock")]
    cgroup, joining = None, tuple[str, ...]()
    if home.cgroups is not None:
        cgroup = home.cgroups.make(f"{home.folder.name}.{name}", (home.limits.sandbox_memory_mb << 20) + OVERHEAD_BYTES)
        joining = cgroup.joining()
    read, write = os.pipe()
    try:
        process = subprocess.Popen(
            [*die_with_parent(), *joining, *command],
            stdin=subprocess.PIPE,
            stdout=write,
            stderr=write,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
    except BaseException:
        os.close(read)
        if cgroup is not None:
            cgroup.remove()
        raise
    finally:
        os.close(write)
    return SandboxProcess(process, folder, read, on_exit, cgroup)


def _bubblewrap_arguments(home: Home, sockets: Path) -> list[str]:
    arguments = ["--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
    arguments += ["--ro-bind", str(home.root), "/", "--proc", "/proc", "--dev", "/dev"]
    arguments += ["--size", str(home.limits.tmp_mb << 20), "--tmpfs", "/tmp"]
    arguments += ["--bind", str(sockets), SOCKET_FOLDER]
    for key, value in bundle.guest_environment().items():
        arguments += ["--setenv", key, value]
    return [*arguments, "--", PYTHON, *bundle.PYTHON_ARGUMENTS, GUEST, bundle.SOCKET]


def base_folder() -> Path:
    """Return where services make their folders: short, because socket paths are limited to about 100 characters."""
    return Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp")


def remove_stale(base: Path) -> int:
    """Kill and delete what services left behind that ended without cleaning up; return how many they were.

    A living service holds a lock on its folder.
    """
    removed = 0
    for folder in base.glob(FOLDER_PREFIX + "*"):
        try:
            lock = os.open(folder / LOCK, os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        else:
            end_users_of(folder)
            shutil.rmtree(folder, ignore_errors=True)
            cgroups = find_cgroups()
            if cgroups is not None:
                remove_stale_cgroups(cgroups, f"{folder.name}.")
            removed += 1
        finally:
            os.close(lock)
    return removed


def end_users_of(folder: Path, seconds: float = END_SECONDS) -> None:
    """Kill every process whose command line names ``folder``, and return when they are gone.

    What a killed sandbox had started dies with it, but a moment later. Blocks; raises SandboxError after ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while users := _users_of(folder):
        if time.monotonic() > deadline:
            raise SandboxError(f"processes of ended sandboxes do not die: {users}")
        for pid in users:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _users_of(folder: Path) -> list[int]:
    needle = os.fsencode(str(folder))
    users = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if needle in (entry / "cmdline").read_bytes():
                    users.append(int(entry.name))
    return users


def make_folder(base: Path) -> tuple[Path, int]:
    """Make a service's folder; it is the service's for as long as the returned descriptor of its lock is open."""
    # Locked before it has the name by which others look for folders that nobody locks.
    hidden = Path(tempfile.mkdtemp(prefix="." + FOLDER_PREFIX, dir=base))
    lock = os.open(hidden / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    folder = hidden.with_name(hidden.name[1:])
    hidden.rename(folder)
    folder.chmod(0o711)
    return folder, lock
