"""``openenv-core``: its environment server on uvicorn and its WebSocket client.

NOT isolated: sessions share the server's processes. An episode is a new connection, which gets a new environment
instance, and a reset. The interface takes one action a message.

    PEERS/bin/python -m benchmarks.sandbox_openenv [WORKERS]
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from openenv.core import GenericEnvClient  # type: ignore[import-not-found]

from benchmarks.sandbox_contender import Contender, drive

START_SECONDS = 90.0
STOP_SECONDS = 20.0


class SessionEpisode:
    """An episode on a connection of its own."""

    def __init__(self, client: Any, observation: str) -> None:
        self.observation = observation
        self._client = client

    async def step(self, actions: Sequence[str]) -> int:
        """Take actions, one message each."""
        for action in actions:
            await self._client.step({"text": action})
        return len(actions)

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()


class OpenEnv:
    """A running environment server."""

    largest_batch = 1
    folder = ""

    def __init__(self, url: str, workers: int) -> None:
        self.version = f"openenv-core {importlib.metadata.version('openenv-core')}, uvicorn, {workers} worker(s)"
        self._url = url

    async def start(self, seed: int) -> SessionEpisode:
        """Connect and reset."""
        client = GenericEnvClient(base_url=self._url)
        await client.connect()
        result = await client.reset(seed=seed)
        return SessionEpisode(client, result.observation["text"])

    async def settle(self) -> None:
        """An episode that is closed has ended."""


@asynccontextmanager
async def open_server(workers: int) -> AsyncIterator[Contender]:
    """Start the server with so many worker processes, and stop it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "uvicorn", "benchmarks.sandbox_openenv_server:app", "--log-level", "critical"),
        *("--host", "127.0.0.1", "--port", str(port), "--workers", str(workers)),
        stdin=asyncio.subprocess.DEVNULL,
    )
    contender = OpenEnv(f"http://127.0.0.1:{port}", workers)
    try:
        await _answers(contender, server)
        yield contender
    finally:
        if server.returncode is None:
            server.terminate()
        async with asyncio.timeout(STOP_SECONDS):
            await server.wait()


async def _answers(contender: OpenEnv, server: asyncio.subprocess.Process) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            await (await contender.start(0)).close()
        except ConnectionError:
            if server.returncode is not None or time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)
        else:
            return


if __name__ == "__main__":
    drive(open_server(int(sys.argv[1]) if sys.argv[1:] else len(os.sched_getaffinity(0))))
