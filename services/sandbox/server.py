"""The gRPC edge of the sandbox service, and its life from start to stop."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc

from spade_rl.config import Endpoints, Isolation, RunConfig, SandboxSection
from spade_rl.errors import ConfigurationError
from spade_rl.rpc import Server
from spade_rl.sandbox import metrics
from spade_rl.sandbox.admission import admit
from spade_rl.sandbox.episode import open_episode
from spade_rl.sandbox.launch import Home, base_folder, end_users_of, make_folder, remove_stale
from spade_rl.sandbox.limits import EpisodeError, limits_of
from spade_rl.sandbox.pool import Pool
from spade_rl.sandbox.rootfs import ensure_rootfs, running_interpreter
from spade_rl.sandbox.runtime import find_runtime
from spade_rl.sandbox.wire import (
    fault_to_wire,
    isolation_to_wire,
    kind_from_wire,
    report_to_wire,
    reset_to_wire,
    steps_to_wire,
)
from spade_rl.telemetry import get_logger
from spade_rl.v1 import sandbox_pb2 as pb
from spade_rl.v1 import sandbox_pb2_grpc

SERVICE = "spade_rl.v1.SandboxService"

_log = get_logger(__name__)


class SandboxServicer(sandbox_pb2_grpc.SandboxServiceServicer):
    """Translates calls; the work is the pool's."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def Admit(self, request: pb.AdmitRequest, _context: grpc.aio.ServicerContext) -> pb.AdmitResponse:
        """Pass a source through the gates."""
        report = await admit(
            self._pool,
            request.source,
            seed=request.seed,
            known=frozenset(request.known_normalised_digests),
            kind=kind_from_wire(request.kind),
        )
        return pb.AdmitResponse(report=report_to_wire(report), normalised_digest=report.normalised_digest)

    async def Episode(
        self, requests: AsyncIterator[pb.EpisodeRequest], _context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.EpisodeResponse]:
        """Run one episode: a reset, then steps; a fault ends it."""
        first = await anext(requests, None)
        if first is None:
            return
        if first.WhichOneof("request") != "reset":
            raise ConfigurationError("an episode's first request must be a reset")
        try:
            async with open_episode(self._pool, first.reset.source) as episode:
                yield reset_to_wire(await episode.reset(first.reset.seed))
                async for request in requests:
                    if request.WhichOneof("request") != "step":
                        raise ConfigurationError("an episode has one reset: open another stream for another episode")
                    if episode.over:
                        raise ConfigurationError("the episode is over: open another stream for another episode")
                    yield steps_to_wire(await episode.step(request.step.actions))
        except EpisodeError as error:
            metrics.FAULTS.labels(error.origin.value, error.kind.value).inc()
            yield fault_to_wire(error)

    async def GetStatus(
        self, _request: pb.GetStatusRequest, _context: grpc.aio.ServicerContext
    ) -> pb.GetStatusResponse:
        """Say how strongly code is isolated and how busy the service is."""
        return pb.GetStatusResponse(
            isolation=isolation_to_wire(self._pool.isolation),
            runtime=self._pool.runtime,
            live_sandboxes=self._pool.live_sandboxes,
            live_workers=self._pool.live_workers,
            waiting=self._pool.waiting,
        )


@asynccontextmanager
async def open_pool(section: SandboxSection) -> AsyncIterator[Pool]:
    """Start what runs environments on this machine; leave nothing behind.

    Raises ConfigurationError, which says what to do, if the isolation asked for cannot be given.
    """
    base = base_folder()
    folder, lock = make_folder(base)
    try:
        home = await asyncio.get_running_loop().run_in_executor(None, _prepare, section, base, folder)
        if home.runtime.isolation is not Isolation.GVISOR:
            _log.warning("generated code runs without gVisor, as configured", isolation=home.runtime.isolation.value)
        try:
            async with Pool(home, section) as pool:
                yield pool
        finally:
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, end_users_of, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _prepare(section: SandboxSection, base: Path, folder: Path) -> Home:
    removed = remove_stale(base)
    if removed:
        _log.warning("removed what dead sandbox services had left", services=removed)
    interpreter = running_interpreter()
    root = ensure_rootfs(interpreter)
    return Home(folder, root, interpreter, find_runtime(section, root, folder / "state"), limits_of(section))


@asynccontextmanager
async def serve(config: RunConfig, *, run_dir: Path, address: str, endpoints: Endpoints) -> AsyncIterator[Server]:
    """Serve the sandbox; it keeps no files in ``run_dir`` and calls no other service."""
    del run_dir, endpoints
    async with open_pool(config.sandbox) as pool:

        def register(server: grpc.aio.Server) -> None:
            sandbox_pb2_grpc.add_SandboxServiceServicer_to_server(SandboxServicer(pool), server)

        server = Server(address=address, services=[SERVICE], register=register, tls=config.tls)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()
