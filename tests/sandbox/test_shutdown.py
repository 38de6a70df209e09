"""How the service ends: draining after SIGTERM, at once after a second one, and what is left when it is killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from spade_rl.config import RunConfig, SandboxSection
from spade_rl.config_files import dump_config
from spade_rl.errors import SpadeError, UnavailableError
from spade_rl.rpc import calling, open_channel
from spade_rl.sandbox.launch import FOLDER_PREFIX, base_folder
from spade_rl.v1 import sandbox_pb2
from spade_rl.v1.sandbox_pb2_grpc import SandboxServiceStub

pytestmark = pytest.mark.usefixtures("base")

ECHO = """
class Echo:
    def reset(self, seed):
        return "ready", {}
    def step(self, action):
        if action == "hang":
            while True: pass
        return action, 1.0, action == "end", False, {}
"""


def reset() -> sandbox_pb2.EpisodeRequest:
    return sandbox_pb2.EpisodeRequest(reset=sandbox_pb2.ResetRequest(source=ECHO, seed=1))


def step(action: str) -> sandbox_pb2.EpisodeRequest:
    return sandbox_pb2.EpisodeRequest(step=sandbox_pb2.StepRequest(actions=[action]))


@dataclass(frozen=True)
class Service:
    """A sandbox service in a process of its own, which has begun an episode."""

    process: asyncio.subprocess.Process
    channel: grpc.aio.Channel
    stub: SandboxServiceStub
    folder: Path
    episode: Any

    async def health(self) -> int:
        request = health_pb2.HealthCheckRequest(service="spade_rl.v1.SandboxService")
        answer = await health_pb2_grpc.HealthStub(self.channel).Check(request, timeout=10)
        return answer.status

    async def ended(self) -> int:
        async with asyncio.timeout(30):
            return await self.process.wait()


async def started(folder: Path, section: SandboxSection, **settings: Any) -> tuple[asyncio.subprocess.Process, str]:
    config = RunConfig(sandbox=section.model_copy(update={"call_seconds": 60.0, **settings}))
    (folder / "config.yaml").write_text(dump_config(config))
    address = f"unix:{folder}/s"
    arguments = ["--config", str(folder / "config.yaml"), "--run-dir", str(folder), "--address", address]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "spade_rl.sandbox", *arguments, stderr=subprocess.DEVNULL
    )
    return process, address


@asynccontextmanager
async def serving(folder: Path, section: SandboxSection, **settings: Any) -> AsyncIterator[Service]:
    before = set(base_folder().glob(FOLDER_PREFIX + "*"))
    process, address = await started(folder, section, **settings)
    try:
        async with open_channel(address) as channel:
            stub = SandboxServiceStub(channel)
            episode = stub.Episode(timeout=120, wait_for_ready=True)
            begun = asyncio.ensure_future(_begin(episode))
            await asyncio.wait((begun, ended := asyncio.ensure_future(process.wait())), return_when="FIRST_COMPLETED")
            ended.cancel()
            assert process.returncode is None, "it did not start"
            await begun
            (mine,) = (folder for folder in base_folder().glob(FOLDER_PREFIX + "*") if folder not in before)
            yield Service(process, channel, stub, mine, episode)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _begin(episode: Any) -> None:
    await episode.write(reset())
    assert (await episode.read()).reset.observation == "ready"


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    deadline = time.monotonic() + 20
    while not await condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        await asyncio.sleep(0.02)


async def until_draining(service: Service) -> None:
    async def not_serving() -> bool:
        return await service.health() == health_pb2.HealthCheckResponse.NOT_SERVING

    await until(not_serving)


async def test_a_service_that_is_told_to_stop_finishes_what_runs(
    section: SandboxSection, tmp_path: Path, processes_naming: Callable[[str], list[int]]
) -> None:
    async with serving(tmp_path, section, drain_seconds=60.0) as service:
        idle = service.stub.Episode(timeout=60)
        for request in (reset(), step("end")):
            await idle.write(request)
            await idle.read()
        service.process.send_signal(signal.SIGTERM)
        await until_draining(service)
        with pytest.raises(UnavailableError, match="shutting down"):
            async with calling("sandbox"):
                await service.stub.Admit(sandbox_pb2.AdmitRequest(source=ECHO), timeout=30)
        with pytest.raises(UnavailableError, match="shutting down"):
            async with calling("sandbox"):
                fresh = service.stub.Episode(timeout=30)
                await fresh.read()
        with pytest.raises(UnavailableError, match="shutting down"):
            async with calling("sandbox"):
                await idle.read()
        # The one that runs goes on to its end, and then nothing new begins on its stream either.
        for action in ("still", "end"):
            await service.episode.write(step(action))
            assert (await service.episode.read()).step.results[0].observation == action
        with pytest.raises(UnavailableError, match="shutting down"):
            async with calling("sandbox"):
                await service.episode.read()
        assert await service.ended() == 0
        assert not service.folder.exists()
        assert not processes_naming(str(service.folder))


async def test_a_reset_in_a_running_episode_is_refused_while_draining(section: SandboxSection, tmp_path: Path) -> None:
    async with serving(tmp_path, section, drain_seconds=60.0) as service:
        service.process.send_signal(signal.SIGTERM)
        await until_draining(service)
        with pytest.raises(UnavailableError, match="shutting down"):
            async with calling("sandbox"):
                await service.episode.write(reset())
                await service.episode.read()
        assert await service.ended() == 0


async def test_what_does_not_finish_in_time_is_ended(
    section: SandboxSection, tmp_path: Path, processes_naming: Callable[[str], list[int]]
) -> None:
    async with serving(tmp_path, section, drain_seconds=0.2) as service:
        await service.episode.write(step("hang"))
        service.process.send_signal(signal.SIGTERM)
        with pytest.raises(SpadeError):
            async with calling("sandbox"):
                await service.episode.read()
        assert await service.ended() == 0
        assert not service.folder.exists()
        assert not processes_naming(str(service.folder))


async def test_a_second_signal_waits_for_nobody(
    section: SandboxSection, tmp_path: Path, processes_naming: Callable[[str], list[int]]
) -> None:
    async with serving(tmp_path, section, drain_seconds=600.0) as service:
        service.process.send_signal(signal.SIGTERM)
        await until_draining(service)
        service.process.send_signal(signal.SIGTERM)
        assert await service.ended() == 1
        assert not service.folder.exists()
        assert not processes_naming(str(service.folder))


async def test_a_killed_service_leaves_no_process_and_the_next_one_tidies_up(
    section: SandboxSection, tmp_path: Path, processes_naming: Callable[[str], list[int]]
) -> None:
    async with serving(tmp_path, section) as service:
        await service.episode.write(step("hang"))
        service.process.kill()
        await service.process.wait()

        async def gone() -> bool:
            return not processes_naming(str(service.folder))

        await until(gone)
        assert service.folder.exists(), "a killed service cannot tidy up"
    second = tmp_path / "second"
    second.mkdir()
    async with serving(second, section, drain_seconds=0.0) as service_after:
        assert not service.folder.exists()
        service_after.process.send_signal(signal.SIGTERM)
        assert await service_after.ended() == 0
