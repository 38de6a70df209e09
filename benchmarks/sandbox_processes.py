"""Two contenders that start a process for every episode: a new ``runsc`` container, and a plain one.

The container has the same runtime, platform and baked root file system as ours, and one OCI bundle for all, which
is the fastest that could be found; the plain process is the limit, and isolates nothing.

    python -m benchmarks.sandbox_processes runsc|subprocess
"""

from __future__ import annotations

import asyncio
import itertools
import json
import platform
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.sandbox_contender import Contender, drive
from benchmarks.sandbox_environment import WALK
from spade_rl.config import SandboxSection
from spade_rl.sandbox.rootfs import LIBRARIES, PYTHON, PYTHON_HOME, ensure_rootfs, running_interpreter
from spade_rl.sandbox.runtime import find_runtime

RUNNER = Path(__file__).with_name("sandbox_runner.py")
PYTHON_FLAGS = ("-I", "-S", "-B")
LINE_BYTES = 1 << 24


class ProcessEpisode:
    """An episode that lives in a process."""

    def __init__(self, process: asyncio.subprocess.Process, observation: str) -> None:
        self.observation = observation
        self._process = process

    async def step(self, actions: Sequence[str]) -> int:
        """Take actions in one message."""
        return len(await _ask(self._process, list(actions)))

    async def close(self) -> None:
        """Let the process end, and wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


class Processes:
    """A process for every episode."""

    largest_batch = 4096

    def __init__(self, version: str, command: Sequence[str], *, folder: str = "", named: bool = False) -> None:
        self.version = version
        self.folder = folder
        self._command = command
        self._named = named
        self._numbers = itertools.count()

    async def start(self, seed: int) -> ProcessEpisode:
        """Start the process and give it its environment."""
        name = (f"e{next(self._numbers)}",) if self._named else ()
        process = await asyncio.create_subprocess_exec(
            *self._command,
            *name,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
        )
        return ProcessEpisode(process, await _ask(process, {"source": WALK, "seed": seed}))

    async def settle(self) -> None:
        """An episode that is closed has ended."""


async def _ask(process: asyncio.subprocess.Process, message: object) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")
    line = await process.stdout.readline()
    if not line:
        raise RuntimeError(f"the process ended with status {await process.wait()}")
    return json.loads(line)


@asynccontextmanager
async def open_subprocesses() -> AsyncIterator[Contender]:
    """A plain process for every episode."""
    executable = running_interpreter().executable
    yield Processes(f"Python {platform.python_version()}", [str(executable), *PYTHON_FLAGS, "-c", RUNNER.read_text()])


@asynccontextmanager
async def open_containers() -> AsyncIterator[Contender]:
    """A new gVisor container for every episode."""
    root = ensure_rootfs()
    with tempfile.TemporaryDirectory(prefix="spade-bench-") as folder:
        runtime = find_runtime(SandboxSection(), root, Path(folder) / "state")
        config = {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 65534, "gid": 65534},
                "args": [PYTHON, *PYTHON_FLAGS, "-c", RUNNER.read_text()],
                "env": [f"PYTHONHOME={PYTHON_HOME}", f"LD_LIBRARY_PATH={LIBRARIES}"],
                "cwd": "/",
                "noNewPrivileges": True,
            },
            "root": {"path": str(root), "readonly": True},
            "mounts": [{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}],
            "linux": {"namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]},
        }
        (Path(folder) / "config.json").write_text(json.dumps(config))
        yield Processes(runtime.name, [*runtime.command, "run", f"--bundle={folder}"], folder=folder, named=True)


if __name__ == "__main__":
    drive({"runsc": open_containers, "subprocess": open_subprocesses}[sys.argv[1]]())
