"""The PyPI package ``gvisor``: one container that runs all the time, and ``Sandbox.exec`` for every call.

What a call starts ends with it, so an episode has no state of its own between calls: a fresh episode is one call
that resets and shows the first observation; a step is one call that resets and takes only the actions given, without
those before (the cheapest reading; a real episode would have to repeat them). The interpreter is the one that the
others use, mounted read-only.

    PEERS/bin/python -m benchmarks.sandbox_binding
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import gvisor  # type: ignore[import-not-found]

from benchmarks.sandbox_contender import Contender, drive
from benchmarks.sandbox_environment import WALK

RUNNER = Path(__file__).with_name("sandbox_runner.py").read_text()
CALL_SECONDS = 120.0
THREADS = 64


class ExecEpisode:
    """An episode whose every call is a process of its own."""

    def __init__(self, contender: Binding, seed: int, observation: str) -> None:
        self.observation = observation
        self._contender = contender
        self._seed = seed

    async def step(self, actions: Sequence[str]) -> int:
        """Reset and take actions in one call."""
        return len((await self._contender.call(self._seed, list(actions)))[1])

    async def close(self) -> None:
        """Nothing runs between calls."""


class Binding:
    """A running container of the binding."""

    largest_batch = 4096

    def __init__(self, sandbox: Any, folder: str, threads: ThreadPoolExecutor) -> None:
        runsc = subprocess.run(["runsc", "--version"], capture_output=True, text=True, timeout=30, check=True)
        release = runsc.stdout.splitlines()[0].removeprefix("runsc version ")
        self.version = f"gvisor {importlib.metadata.version('gvisor')}, runsc {release}"
        self.folder = folder
        self._sandbox = sandbox
        self._threads = threads
        self._interpreter = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())

    async def start(self, seed: int) -> ExecEpisode:
        """Reset in one call."""
        return ExecEpisode(self, seed, (await self.call(seed))[0])

    async def settle(self) -> None:
        """An episode that is closed has ended."""

    async def call(self, seed: int, *messages: list[str]) -> list[Any]:
        """Run the runner once, with a first message and more, and return its answers."""
        asked = [json.dumps(message) for message in ({"source": WALK, "seed": seed}, *messages)]
        arguments = [self._interpreter, "-I", "-S", "-B", "-c", RUNNER, *asked]
        output, _ = await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: self._sandbox.exec(*arguments, timeout=CALL_SECONDS)
        )
        return [json.loads(line) for line in output.splitlines()]


@asynccontextmanager
async def open_binding() -> AsyncIterator[Contender]:
    """Start a container, and end it."""
    prefix = sys.base_prefix
    with tempfile.TemporaryDirectory(prefix="spade-bench-") as folder, ThreadPoolExecutor(THREADS) as threads:
        mounts = [] if prefix == "/usr" else [gvisor.Mount.bind(prefix, prefix, readonly=True)]
        sandbox = gvisor.Sandbox(runtime_dir=folder, mounts=mounts)
        try:
            yield Binding(sandbox, folder, threads)
        finally:
            sandbox.close()


if __name__ == "__main__":
    drive(open_binding())
