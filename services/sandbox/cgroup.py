"""A memory cgroup for each sandbox, where the service may make some: a second bound, held by the kernel.

The watchdog looks twenty times a second and says why it ends a sandbox. What grows faster than it looks, the kernel
stops here, a little above the watchdog's limit; the sandbox's end is then read from the cgroup's count of kills.
Cgroups of version 1 and 2. Where none can be made (an ordinary user, a pod, a version 2 cgroup that holds processes
itself) the watchdog is alone.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
# For gVisor's own processes, whose memory counts too.
OVERHEAD_BYTES = 256 << 20
REMOVE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Cgroups:
    """Where cgroups can be made, and of which version they are."""

    parent: Path
    version: int

    def make(self, name: str, limit_bytes: int) -> Cgroup:
        """Make one that holds its processes to ``limit_bytes`` with swap. Raises OSError."""
        folder = self.parent / name
        folder.mkdir()
        try:
            if self.version == 2:
                (folder / "memory.max").write_text(str(limit_bytes))
                with contextlib.suppress(OSError):  # A kernel without swap knows no limit of it.
                    (folder / "memory.swap.max").write_text("0")
            else:
                (folder / "memory.limit_in_bytes").write_text(str(limit_bytes))
                with contextlib.suppress(OSError):
                    (folder / "memory.memsw.limit_in_bytes").write_text(str(limit_bytes))
        except OSError:
            folder.rmdir()
            raise
        return Cgroup(folder, self.version)


@dataclass(frozen=True, slots=True)
class Cgroup:
    """One sandbox's."""

    folder: Path
    version: int

    def joining(self) -> tuple[str, ...]:
        """Return the command that makes what follows it a member, with all that it starts."""
        return ("/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs"))

    def killed(self) -> bool:
        """Return whether the kernel has ended a process because of the limit."""
        events = self.folder / ("memory.events" if self.version == 2 else "memory.oom_control")
        with contextlib.suppress(OSError):
            counts = (line.split() for line in events.read_text().splitlines())
            return any(name == "oom_kill" and int(count) > 0 for name, count in counts)
        return False

    def remove(self) -> None:
        """Remove it once its last process is gone. Blocks for up to some seconds."""
        deadline = time.monotonic() + REMOVE_SECONDS
        while True:
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                if time.monotonic() > deadline:
                    return  # Whoever removes stale folders tries again.
                time.sleep(0.02)
            else:
                return


def find_cgroups(mount: Path = MOUNT, own: Path = Path("/proc/self/cgroup")) -> Cgroups | None:
    """Return where this process may make memory cgroups below its own, found by making one; None if nowhere."""
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return None
    for _, controllers, path in lines:
        two = not controllers
        if two and not (mount / "cgroup.controllers").exists():
            continue
        if not two and "memory" not in controllers.split(","):
            continue
        base = mount if two else mount / "memory"
        parent = base / path.lstrip("/")
        found = Cgroups(parent if parent.is_dir() else base, 2 if two else 1)
        try:
            found.make(f"spade-probe-{secrets.token_hex(4)}", 64 << 20).remove()
        except OSError:
            continue
        return found
    return None


def remove_stale_cgroups(cgroups: Cgroups, prefix: str) -> None:
    """Remove the cgroups of a service that has ended: those whose names begin with ``prefix``."""
    for folder in cgroups.parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            folder.rmdir()
