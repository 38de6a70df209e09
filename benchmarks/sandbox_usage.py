"""Memory and processor time of a contender, by kind of process, read from /proc.

Memory of gVisor lies in two places: the private memory of its processes (``Pss_Anon`` and ``Pss_File`` of
``smaps_rollup``), and one file without a name, which holds the memory of all programs in the sandbox and counts by
the blocks allocated to it. What is mapped from that file is left out of the first, so nothing counts twice.
Standard library only: peers import it in an environment of their own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

CLIENT, SERVICE, SENTRY, GOFER, RUNSC = "client", "service", "sentry", "gofer", "runsc"
WORKER, OTHER = "worker", "process"
ENDED = "ended processes"
MEMORY_FILE = "memory file"
SANDBOX_KINDS = (SENTRY, GOFER, RUNSC, WORKER, MEMORY_FILE)
# What the command lines of services, and of workers that run without gVisor, name.
SERVICES = ("spade_rl.sandbox", "uvicorn")
GUEST = "guest/main.py"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """One process; times in seconds, of itself and of those of its children that it has reaped."""

    pid: int
    # In ticks since the machine's start; with ``pid`` it names a process for good.
    started: int
    parent: int
    arguments: tuple[str, ...]
    seconds: float
    reaped_seconds: float


def processes() -> dict[int, Process]:
    """Return all processes that can be read and have not ended."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if fields[0] == "Z":
                continue
            own, reaped = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
            pid = int(entry.name)
            found[pid] = Process(
                pid,
                int(fields[19]),
                int(fields[1]),
                tuple(filter(None, arguments)),
                own / _TICKS,
                reaped / _TICKS,
            )
    return found


def members(every: dict[int, Process], client: int, folder: str) -> dict[int, str]:
    """Return the kind of every process of a contender: of ``client``, its descendants, and who names ``folder``."""
    children: dict[int, list[int]] = {}
    for process in every.values():
        children.setdefault(process.parent, []).append(process.pid)
    named = [p.pid for p in every.values() if folder and any(folder in argument for argument in p.arguments)]
    kinds: dict[int, str] = {}
    waiting = [(pid, OTHER) for pid in named] + [(client, CLIENT)]
    while waiting:
        pid, parents = waiting.pop()
        if pid not in kinds and pid in every:
            kinds[pid] = CLIENT if pid == client else _kind(every[pid], parents)
            waiting += [(child, kinds[pid]) for child in children.get(pid, ())]
    return kinds


def _kind(process: Process, parents: str) -> str:
    if not process.arguments:  # gVisor's stubs, in which the programs of a sandbox run, have no command line.
        return WORKER
    if any(argument.endswith(GUEST) for argument in process.arguments):
        return WORKER
    if any(argument in SERVICES for argument in process.arguments):
        return SERVICE
    name = Path(process.arguments[0]).name
    other = SERVICE if parents == SERVICE else OTHER  # A server may have worker processes.
    return {"runsc-sandbox": SENTRY, "runsc-gofer": GOFER, "runsc": RUNSC}.get(name, other)


def leftovers(seen: dict[int, int], every: dict[int, Process]) -> list[Process]:
    """Return those of ``every`` that were seen before, by number and start."""
    return [process for pid, process in every.items() if seen.get(pid) == process.started]


def cpu_seconds(client: int, folder: str) -> dict[str, float]:
    """Return the processor time used so far by kind; of ended workers of a sandbox their sentry knows."""
    every = processes()
    totals: dict[str, float] = {}
    for pid, kind in members(every, client, folder).items():
        totals[kind] = totals.get(kind, 0.0) + every[pid].seconds
        ended = WORKER if kind in (SENTRY, WORKER) else ENDED
        totals[ended] = totals.get(ended, 0.0) + every[pid].reaped_seconds
    return totals


def memory_bytes(client: int, folder: str) -> dict[str, int]:
    """Return the memory in use by kind, and the number of live sandboxes as ``sandboxes``."""
    every = processes()
    totals: dict[str, int] = {"sandboxes": 0}
    for pid, kind in members(every, client, folder).items():
        try:
            private = private_bytes(Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines())
            blocks = _memory_file_bytes(pid) if kind == SENTRY else 0
        except OSError:
            continue
        totals[kind] = totals.get(kind, 0) + private
        if kind == SENTRY:
            totals["sandboxes"] += 1
            totals[MEMORY_FILE] = totals.get(MEMORY_FILE, 0) + blocks
    return totals


def private_bytes(rollup: Iterable[str]) -> int:
    """Return what a process has in memory that is not shared memory, from the lines of its ``smaps_rollup``."""
    values = dict(line.split(":", 1) for line in rollup if line.startswith(("Pss_Anon:", "Pss_File:")))
    return sum(int(value.split()[0]) << 10 for value in values.values())


def _memory_file_bytes(pid: int) -> int:
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if "runsc-memory" in str(entry.readlink()):
                return entry.stat().st_blocks * 512
        except OSError:
            continue
    return 0
