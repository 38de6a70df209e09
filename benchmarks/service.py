"""A service of ours in a process of its own, as it ships, for as long as a benchmark needs it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from grpc_health.v1 import health_pb2, health_pb2_grpc

from spade_rl.rpc import calling, open_channel

START_SECONDS = 120.0
STOP_SECONDS = 60.0


@asynccontextmanager
async def running(name: str, folder: Path, address: str, *arguments: str) -> AsyncIterator[int]:
    """Yield the process id of a service that serves with the ``config.yaml`` in ``folder``; it ends with the block.

    Raises RuntimeError, with the end of its log, if it ends before it serves.
    """
    log = folder / f"{name}.log"
    with log.open("wb") as stream:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", f"spade_rl.{name}", "--log-level", "WARNING", *arguments),
            *("--config", str(folder / "config.yaml"), "--run-dir", str(folder), "--address", address),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=stream,
        )
    try:
        async with calling(name), open_channel(address) as channel:
            check: Any = health_pb2_grpc.HealthStub(channel).Check
            serving = asyncio.ensure_future(
                check(health_pb2.HealthCheckRequest(), timeout=START_SECONDS, wait_for_ready=True)
            )
            ended = asyncio.ensure_future(process.wait())
            await asyncio.wait([serving, ended], return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                serving.cancel()
                raise RuntimeError(f"the {name} service ended: {log.read_text()[-2000:].strip()}")
            ended.cancel()
            await serving
        yield process.pid
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
