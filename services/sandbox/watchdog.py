"""The memory of whole sandboxes, held without cgroups.

gVisor keeps the memory of everything in a sandbox in one file without a name ("runsc-memory"); the blocks allocated
to it are what the programs use, all workers together. What its kernel holds for them (the buffers of sockets and pipes,
files and folders) is in the private memory of the process that has this file open. The service looks at both often; a
sandbox over its limit is killed.

In a pod that itself runs under gVisor neither can be seen: there the resident sizes of a zygote and its workers are
added, what workers share with their zygote once.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Protocol

POLL_SECONDS = 0.05
MEMORY_FILE = "runsc-memory"
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Gauge(Protocol):
    """What tells how much memory one sandbox uses; it may block for milliseconds and be asked from any thread."""

    def used_bytes(self) -> int:
        """Return the memory that the sandbox uses now. Raises OSError once it is gone."""

    def close(self) -> None:
        """Let go of it."""


class MemoryGauge:
    """What one sandbox uses. ``file``: its memory file; ``pages``: the ``statm`` of the process that has it open."""

    def __init__(self, file: int, pages: int) -> None:
        self._file = file
        self._pages = pages

    def used_bytes(self) -> int:
        """Return the memory that the sandbox uses now."""
        return os.fstat(self._file).st_blocks * 512 + self._private_bytes()

    def close(self) -> None:
        """Let go of the descriptors."""
        os.close(self._file)
        os.close(self._pages)

    def _private_bytes(self) -> int:
        try:
            _, resident, shared, *_ = os.pread(self._pages, 128, 0).split()
        except (OSError, ValueError):
            return 0  # The process has ended, and its memory is gone.
        return (int(resident) - int(shared)) * _PAGE


class ResidentGauge:
    """What a zygote in the service's own pod and its children use."""

    def __init__(self, pid: int) -> None:
        self._zygote = pid

    def used_bytes(self) -> int:
        """Return the zygote's memory, and what each worker has besides."""
        own = _resident(self._zygote)
        total = own
        for pid in Path(f"/proc/{self._zygote}/task/{self._zygote}/children").read_text().split():
            with contextlib.suppress(OSError):
                total += max(0, _resident(int(pid)) - own)
        return total

    def close(self) -> None:
        """Nothing is held."""


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def _children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    return children


def open_gauge(pid: int, *, pod: bool = False) -> Gauge | None:
    """Return the gauge of the sandbox that ``pid`` started, or None if its memory file cannot be found."""
    if pod:
        return ResidentGauge(pid)
    children = _children()
    waiting = [pid]
    while waiting:
        current = waiting.pop()
        waiting += children.get(current, ())
        folder = Path(f"/proc/{current}/fd")
        try:
            for entry in folder.iterdir():
                if MEMORY_FILE in str(entry.readlink()):
                    return _gauge(current, entry)
        except OSError:
            continue
    return None


def _gauge(pid: int, entry: Path) -> MemoryGauge:
    file = os.open(entry, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return MemoryGauge(file, os.open(f"/proc/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        os.close(file)
        raise
