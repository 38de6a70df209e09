"""The memory of whole sandboxes, held without cgroups.

gVisor keeps the memory of everything in a sandbox in one file without a name ("runsc-memory"); the blocks allocated
to it are what the sandbox uses, all workers together. The service holds a descriptor of that file and looks at it
often; a sandbox over its limit is killed. Resident sizes do not show this memory.
"""

from __future__ import annotations

import os
from pathlib import Path

POLL_SECONDS = 0.05
MEMORY_FILE = "runsc-memory"


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


def open_memory_file(pid: int) -> int | None:
    """Return a descriptor of the memory file of the sandbox that ``pid`` started, or None if it cannot be found."""
    children = _children()
    waiting = [pid]
    while waiting:
        current = waiting.pop()
        waiting += children.get(current, ())
        folder = Path(f"/proc/{current}/fd")
        try:
            for entry in folder.iterdir():
                if MEMORY_FILE in str(entry.readlink()):
                    return os.open(entry, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
    return None


def used_bytes(descriptor: int) -> int:
    """Return the memory that a sandbox uses."""
    return os.fstat(descriptor).st_blocks * 512
