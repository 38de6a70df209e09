"""The coordinator's gRPC edge: it tells how the run goes, and ends it.

As a process of its own the coordinator starts its run when it is served, or resumes it if the run's folder holds a
checkpoint; a run that has finished stays so. A signal ends it at once: the run goes on from its last checkpoint when
the coordinator is served again. In one process with the others, ``spade_rl.local`` owns the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc

from spade_rl.config import Endpoints, RunConfig, TlsSection
from spade_rl.coordinator.clients import connected
from spade_rl.coordinator.run import Run
from spade_rl.manifest import prepare_run_dir
from spade_rl.rpc import LOCAL, Server
from spade_rl.telemetry import get_logger
from spade_rl.v1 import coordinator_pb2, coordinator_pb2_grpc

SERVICE = coordinator_pb2.DESCRIPTOR.services_by_name["CoordinatorService"].full_name


class CoordinatorServicer(coordinator_pb2_grpc.CoordinatorServiceServicer):
    """Answers about one run."""

    def __init__(self, run: Run, cycles: int) -> None:
        self._run = run
        self._cycles = cycles

    async def GetRun(
        self, request: coordinator_pb2.GetRunRequest, context: grpc.aio.ServicerContext
    ) -> coordinator_pb2.GetRunResponse:
        """Say how the run goes."""
        run = self._run
        return coordinator_pb2.GetRunResponse(
            run_id=run.state.run_id,
            state=run.status,
            cycle=run.state.cycle,
            cycles=self._cycles,
            policy_version=run.state.policy_version,
            stage=run.events.stage,
            error=run.error,
        )

    async def WatchRun(
        self, request: coordinator_pb2.WatchRunRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[coordinator_pb2.WatchRunResponse]:
        """Stream the run's events until it ends."""
        async for number, line in self._run.events.watch(request.first_event):
            yield coordinator_pb2.WatchRunResponse(number=number, event_json=line)

    async def StopRun(
        self, request: coordinator_pb2.StopRunRequest, context: grpc.aio.ServicerContext
    ) -> coordinator_pb2.StopRunResponse:
        """Have the run stop at the end of its cycle."""
        self._run.stop()
        return coordinator_pb2.StopRunResponse(state=self._run.status)


def run_server(run: Run, cycles: int, address: str, tls: TlsSection = LOCAL) -> Server:
    """Return a server that answers about ``run``."""
    servicer = CoordinatorServicer(run, cycles)
    return Server(
        address=address,
        services=[SERVICE],
        register=lambda server: coordinator_pb2_grpc.add_CoordinatorServiceServicer_to_server(servicer, server),
        tls=tls,
    )


@asynccontextmanager
async def serve(config: RunConfig, *, run_dir: Path, address: str, endpoints: Endpoints) -> AsyncIterator[Server]:
    """Serve, and run the run beside it."""
    run_id = prepare_run_dir(run_dir, config)
    async with connected(endpoints, config.run.stage_seconds, config.tls) as services:
        run = Run(config, services, run_dir=run_dir, run_id=run_id)
        server = run_server(run, config.run.cycles, address, config.tls)
        await server.start()
        task = asyncio.create_task(run.execute(recoveries=config.run.recoveries))
        task.add_done_callback(_log_end)
        try:
            yield server
        finally:
            task.cancel()
            with suppress(Exception, asyncio.CancelledError):
                await task
            await server.stop()


def _log_end(task: asyncio.Task[dict[str, object]]) -> None:
    log = get_logger("coordinator")
    if not task.cancelled() and (error := task.exception()):
        log.error("the run failed", error=f"{type(error).__name__}: {error}")
    elif not task.cancelled():
        log.info("the run ended", **task.result())
