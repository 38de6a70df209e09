"""Our contender: a sandbox service in a process of its own, with its defaults, driven over gRPC.

An episode is a reset on a stream that an earlier one has left, or on a new one if there is none.

``kill`` measures how long an endless loop runs on after its deadline: until the client is told, and until the loop
has stopped, seen from outside as the moment after which the thread that had run it uses no more processor time.

    python -m benchmarks.sandbox_ours [--isolation LEVEL] [--platform PLATFORM]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc

from benchmarks.sandbox_contender import Contender, drive
from benchmarks.sandbox_environment import LOOP, WALK
from benchmarks.sandbox_usage import SENTRY, WORKER, members, processes
from benchmarks.service import running
from spade_rl.config import Isolation, RunConfig, SandboxSection
from spade_rl.config_files import dump_config
from spade_rl.rpc import calling, open_channel
from spade_rl.v1 import sandbox_pb2 as pb
from spade_rl.v1.sandbox_pb2_grpc import SandboxServiceStub

CALL_SECONDS = 120.0
# How long before the deadline the loop's thread is looked for, and how often the thread is looked at.
SEARCH_SECONDS = 0.3
POLL_SECONDS = 0.001
QUIET_SECONDS = 0.05


class StreamEpisode:
    """An episode on a stream, which goes back to the streams that wait for their next reset."""

    def __init__(self, call: Any, observation: str, free: list[Any]) -> None:
        self.observation = observation
        self._call = call
        self._free = free

    async def step(self, actions: Sequence[str]) -> int:
        """Take actions in one request."""
        await self._call.write(pb.EpisodeRequest(step=pb.StepRequest(actions=actions)))
        return len(_answered(await self._call.read(), "step").step.results)

    async def close(self) -> None:
        """Leave the stream to the next episode, whose reset ends this one."""
        self._free.append(self._call)


class Ours:
    """The sandbox service."""

    largest_batch = 4096

    def __init__(self, stub: Any, section: SandboxSection, version: str, folder: str) -> None:
        self.version = version
        self.folder = folder
        self._stub = stub
        self._section = section
        self._free: list[Any] = []

    async def start(self, seed: int) -> StreamEpisode:
        """Reset on a stream that is free, or on a new one."""
        call = self._free.pop() if self._free else self._stub.Episode(timeout=CALL_SECONDS)
        await call.write(pb.EpisodeRequest(reset=pb.ResetRequest(source=WALK, seed=seed)))
        return StreamEpisode(call, _answered(await call.read(), "reset").reset.observation, self._free)

    async def settle(self) -> None:
        """Close the streams, which ends the last episodes, and wait until the service has closed them."""
        for call in self._free:
            await call.done_writing()
        for call in self._free:
            while await call.read() is not grpc.aio.EOF:
                pass
        self._free.clear()

    async def kill(self, *, trials: int) -> dict[str, Any]:
        """Return by how many seconds the answer, and the end of the loop, came after the deadline, of each trial."""
        told, stopped = [], []
        for trial in range(trials):
            call = self._stub.Episode(timeout=CALL_SECONDS)
            await call.write(pb.EpisodeRequest(reset=pb.ResetRequest(source=LOOP, seed=trial)))
            _answered(await call.read(), "reset")
            deadline = time.monotonic() + self._section.call_seconds
            watcher = LoopWatcher(deadline - SEARCH_SECONDS)
            watcher.start()
            await call.write(pb.EpisodeRequest(step=pb.StepRequest(actions=["go"])))
            answer = await call.read()
            told.append(time.monotonic() - deadline)
            if answer.WhichOneof("response") != "fault" or answer.fault.kind != "deadline":
                raise RuntimeError(f"an endless loop was answered with {str(answer)[:300]}")
            await asyncio.get_running_loop().run_in_executor(None, watcher.join)
            if watcher.stopped is not None:
                stopped.append(watcher.stopped - deadline)
        return {"told": told, "stopped": stopped}


class LoopWatcher(threading.Thread):
    """Finds the thread of the host that runs an endless loop, and notes when it last used the processor."""

    def __init__(self, begin: float) -> None:
        super().__init__(daemon=True)
        # Monotonic; None: no thread was busy enough to be the loop's.
        self.stopped: float | None = None
        self._begin = begin

    def run(self) -> None:
        """Wait, find, follow."""
        time.sleep(max(0.0, self._begin - time.monotonic()))
        before = _thread_seconds()
        time.sleep(SEARCH_SECONDS / 3)
        busy = {path: seconds - before.get(path, seconds) for path, seconds in _thread_seconds().items()}
        path = max(busy, key=lambda each: busy[each], default=None)
        if path is None or busy[path] < SEARCH_SECONDS / 30:
            return
        last = _run_seconds(path)
        self.stopped = time.monotonic()
        while last is not None and time.monotonic() - self.stopped < QUIET_SECONDS:
            time.sleep(POLL_SECONDS)
            now = _run_seconds(path)
            if now != last:
                self.stopped = time.monotonic()
            last = now


def _thread_seconds() -> dict[Path, float]:
    """Return the processor time of every thread in which code of a sandbox can run."""
    found = {}
    for pid, kind in members(processes(), os.getpid(), "").items():
        if kind in (SENTRY, WORKER):
            with suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    seconds = _run_seconds(task / "schedstat")
                    if seconds is not None:
                        found[task / "schedstat"] = seconds
    return found


def _run_seconds(path: Path) -> float | None:
    try:
        return int(path.read_text().split()[0]) / 1e9
    except (OSError, IndexError):
        return None


def _answered(answer: Any, kind: str) -> pb.EpisodeResponse:
    if not isinstance(answer, pb.EpisodeResponse) or answer.WhichOneof("response") != kind:
        raise RuntimeError(f"a {kind} was answered with {str(answer)[:300]}")
    return answer


@asynccontextmanager
async def open_service(isolation: Isolation, platform: Any) -> AsyncIterator[Contender]:
    """Start the service in a process of its own, and stop it."""
    config = RunConfig(sandbox=SandboxSection(isolation=isolation, platform=platform))
    with tempfile.TemporaryDirectory(prefix="spade-bench-") as folder:
        (Path(folder) / "config.yaml").write_text(dump_config(config))
        address = f"unix:{folder}/s"
        async with running("sandbox", Path(folder), address), open_channel(address) as channel:
            stub: Any = SandboxServiceStub(channel)  # type: ignore[no-untyped-call]
            async with calling("sandbox"):
                status = await stub.GetStatus(pb.GetStatusRequest(), timeout=CALL_SECONDS)
            yield Ours(stub, config.sandbox, status.runtime, folder)


def main() -> None:
    """Be this contender's process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--isolation", type=Isolation, default=Isolation.GVISOR)
    parser.add_argument("--platform", default="auto")
    arguments = parser.parse_args()
    opened = open_service(arguments.isolation, arguments.platform)

    async def kill(**arguments: Any) -> dict[str, Any]:
        return await current[0].kill(**arguments)

    current: list[Ours] = []

    @asynccontextmanager
    async def remembered() -> AsyncIterator[Contender]:
        async with opened as contender:
            assert isinstance(contender, Ours)
            current.append(contender)
            yield contender

    drive(remembered(), kill=kill)


if __name__ == "__main__":
    main()
