"""The coordinator's gRPC edge: it takes runs, tells how they go, ends them, and hands out what they left.

As a process of its own the coordinator begins the run of its configuration when it is served (``run.start``), goes on
with the one that is wanted, or waits for one to be submitted; a run that has finished stays so. A signal ends a run at
once: it goes on from its last checkpoint when the coordinator is served again. In one process with the others,
``spade_rl.local`` owns the run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

import grpc

from spade_rl.config import Endpoints, RunConfig, TlsSection
from spade_rl.config_files import dump_config
from spade_rl.coordinator.artifacts import Artifact, Artifacts
from spade_rl.coordinator.desk import Desk, Status
from spade_rl.coordinator.run import Run
from spade_rl.coordinator.scaler import SERVICE as SCALER
from spade_rl.coordinator.scaler import ScalerServicer
from spade_rl.coordinator.settings import public
from spade_rl.coordinator.single import SingleRun
from spade_rl.errors import ConfigurationError
from spade_rl.manifest import locked
from spade_rl.rpc import LOCAL, Server
from spade_rl.v1 import coordinator_pb2 as pb
from spade_rl.v1 import coordinator_pb2_grpc, externalscaler_pb2_grpc

SERVICE = pb.DESCRIPTOR.services_by_name["CoordinatorService"].full_name
HELD_SECONDS = 60.0


class Runs(Protocol):
    """What the edge asks of whoever holds the runs; an empty identifier means the run that runs, or the newest."""

    @property
    def config(self) -> RunConfig:
        """What the services were started with."""
        ...

    def resolve(self, run_id: str) -> str:
        """Return the run that a name means."""
        ...

    def status(self, run_id: str) -> Status:
        """Return how a run goes."""
        ...

    def statuses(self) -> list[Status]:
        """Return how all runs go, the oldest first."""
        ...

    def watch(self, run_id: str, first: int) -> AsyncIterator[tuple[int, str]]:
        """Yield a run's events until it ends."""
        ...

    async def start(self, run_id: str, text: str) -> Status:
        """Begin a run of a configuration given as YAML."""
        ...

    async def resume(self, run_id: str) -> Status:
        """Go on with a run."""
        ...

    async def stop(self, run_id: str) -> Status:
        """Have a run stop after its cycle."""
        ...


class Files(Protocol):
    """What the edge asks of whoever hands out the files."""

    async def refresh(self, run_id: str, *, weights: bool) -> tuple[Artifact, ...]:
        """Make a run's files up to now, and list them."""
        ...

    def read(self, run_id: str, path: str, sha256: str, offset: int) -> AsyncIterator[bytes]:
        """Yield a listed file."""
        ...


class CoordinatorServicer(coordinator_pb2_grpc.CoordinatorServiceServicer):
    """Translates between the wire and the runs."""

    def __init__(self, runs: Runs, files: Files) -> None:
        self._runs, self._files = runs, files

    async def GetRun(self, request: pb.GetRunRequest, context: grpc.aio.ServicerContext) -> pb.GetRunResponse:
        """Say how a run goes."""
        return _message(self._runs.status(request.run_id))

    async def ListRuns(self, request: pb.ListRunsRequest, context: grpc.aio.ServicerContext) -> pb.ListRunsResponse:
        """Say how all runs go."""
        config = dump_config(public(self._runs.config))
        return pb.ListRunsResponse(runs=[_message(one) for one in self._runs.statuses()], config=config)

    async def WatchRun(
        self, request: pb.WatchRunRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.WatchRunResponse]:
        """Stream a run's events until it ends."""
        async for number, line in self._runs.watch(request.run_id, request.first_event):
            yield pb.WatchRunResponse(number=number, event_json=line)

    async def StartRun(self, request: pb.StartRunRequest, context: grpc.aio.ServicerContext) -> pb.StartRunResponse:
        """Begin a run."""
        status = await self._runs.start(request.run_id, request.config)
        return pb.StartRunResponse(run_id=status.run_id, state=status.state)

    async def ResumeRun(self, request: pb.ResumeRunRequest, context: grpc.aio.ServicerContext) -> pb.ResumeRunResponse:
        """Go on with a run."""
        status = await self._runs.resume(request.run_id)
        return pb.ResumeRunResponse(run_id=status.run_id, state=status.state)

    async def StopRun(self, request: pb.StopRunRequest, context: grpc.aio.ServicerContext) -> pb.StopRunResponse:
        """Have a run stop at the end of its cycle."""
        status = await self._runs.stop(request.run_id)
        return pb.StopRunResponse(run_id=status.run_id, state=status.state)

    async def ListArtifacts(
        self, request: pb.ListArtifactsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListArtifactsResponse:
        """Make a run's files up to now, and list them."""
        run_id = self._runs.resolve(request.run_id)
        artifacts = await self._files.refresh(run_id, weights=request.weights)
        listed = [pb.Artifact(path=one.path, size=one.size, sha256=one.sha256) for one in artifacts]
        return pb.ListArtifactsResponse(run_id=run_id, state=self._runs.status(run_id).state, artifacts=listed)

    async def FetchArtifact(
        self, request: pb.FetchArtifactRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.FetchArtifactResponse]:
        """Stream a listed file."""
        async for data in self._files.read(request.run_id, request.path, request.sha256, request.offset):
            yield pb.FetchArtifactResponse(data=data)


def _message(status: Status) -> pb.GetRunResponse:
    return pb.GetRunResponse(
        run_id=status.run_id,
        state=status.state,
        cycle=status.cycle,
        cycles=status.cycles,
        policy_version=status.policy_version,
        stage=status.stage,
        error=status.error,
        stage_done=status.stage_done,
        stage_total=status.stage_total,
        events=status.events,
        last_event=status.last_event,
        isolation=status.isolation,
    )


def _server(runs: Runs, files: Files, address: str, tls: TlsSection, scaler: ScalerServicer | None = None) -> Server:
    servicer = CoordinatorServicer(runs, files)

    def register(server: grpc.aio.Server) -> None:
        coordinator_pb2_grpc.add_CoordinatorServiceServicer_to_server(servicer, server)
        if scaler is not None:
            externalscaler_pb2_grpc.add_ExternalScalerServicer_to_server(scaler, server)

    services = [SERVICE] if scaler is None else [SERVICE, SCALER]
    return Server(address=address, services=services, register=register, tls=tls)


def run_server(run: Run, folder: Path, address: str) -> Server:
    """Return a server that answers about the one run of this process, in ``folder``."""
    single = SingleRun(run, str(folder.absolute()))
    return _server(single, single, address, LOCAL)


@asynccontextmanager
async def _held(folder: Path) -> AsyncIterator[None]:
    """Hold a folder; one that a dying coordinator still holds is waited for."""
    deadline = time.monotonic() + HELD_SECONDS
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(locked(folder))
                break
            except ConfigurationError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.5)
        yield


@asynccontextmanager
async def serve(config: RunConfig, *, run_dir: Path, address: str, endpoints: Endpoints) -> AsyncIterator[Server]:
    """Serve, and run runs beside it; see ``spade_rl.serving.Serve``."""
    run_dir.mkdir(parents=True, exist_ok=True)
    async with _held(run_dir):
        desk = Desk(config.model_copy(update={"endpoints": endpoints}), run_dir.absolute())
        artifacts = Artifacts(desk)
        scaler = ScalerServicer(
            desk.demand, workers_per_pod=config.sandbox.max_workers, workers_at_once=config.agent.concurrency
        )
        server = _server(desk, artifacts, address, config.tls, scaler)
        try:
            await desk.open()
            await server.start()
            yield server
        finally:
            # Watchers end with the run, so that the server has nobody to wait for.
            await desk.close()
            await server.stop()
            artifacts.close()
