"""The gRPC edge of the sandbox service, and its life from start to stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import grpc

from spade_rl.config import Endpoints, RunConfig
from spade_rl.errors import ConfigurationError, UnavailableError
from spade_rl.rpc import Server
from spade_rl.sandbox.admission import admit, source_digest_of
from spade_rl.sandbox.episode import Episodes
from spade_rl.sandbox.limits import EpisodeError
from spade_rl.sandbox.opening import open_home
from spade_rl.sandbox.pool import Pool
from spade_rl.sandbox.selftest import LimitCheck, checked_limits
from spade_rl.sandbox.wire import (
    fault_to_wire,
    isolation_to_wire,
    kind_from_wire,
    quarantined_to_wire,
    report_to_wire,
    reset_to_wire,
    steps_to_wire,
)
from spade_rl.v1 import sandbox_pb2 as pb
from spade_rl.v1 import sandbox_pb2_grpc

SERVICE = "spade_rl.v1.SandboxService"
QUARANTINED_SHOWN = 64
STOPPING = (
    "this sandbox service is shutting down and begins nothing new; ask again: another instance, or a little later"
)


class SandboxServicer(sandbox_pb2_grpc.SandboxServiceServicer):
    """Translates calls; the work is the pool's. ``limits``: what the self-test found, if there was one."""

    def __init__(self, pool: Pool, *, replay_share: float, limits: Sequence[LimitCheck]) -> None:
        self._pool = pool
        self._episodes = Episodes(pool, replay_share=replay_share)
        self._limits = limits
        self._draining = asyncio.Event()

    def drain(self) -> None:
        """Begin no more episodes, and end the streams that have none running."""
        self._draining.set()

    async def Admit(self, request: pb.AdmitRequest, _context: grpc.aio.ServicerContext) -> pb.AdmitResponse:
        """Pass a source through the gates."""
        report = await admit(
            self._pool,
            request.source,
            seed=request.seed,
            known=frozenset(request.known_normalised_digests),
            kind=kind_from_wire(request.kind),
            barred=self._episodes.quarantine.reason(source_digest_of(request.source)),
        )
        if report.fault is not None:
            self._episodes.judge(report.digest, report.fault)
        return pb.AdmitResponse(report=report_to_wire(report), normalised_digest=report.normalised_digest)

    async def Episode(
        self, requests: AsyncIterator[pb.EpisodeRequest], _context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.EpisodeResponse]:
        """Run episodes one after the other: each is a reset, then steps; a fault ends the stream."""
        request = await self._between(requests)
        while request is not None:
            if request.WhichOneof("request") != "reset":
                raise ConfigurationError("no episode is running, or it is over: begin one with a reset")
            if self._draining.is_set():
                raise UnavailableError(STOPPING)
            try:
                async with self._episodes.begin(request.reset.source, request.reset.seed) as episode:
                    answer = reset_to_wire(await episode.reset(request.reset.seed))
                    while not episode.over:
                        yield answer
                        request = await anext(requests, None)
                        if request is None or request.WhichOneof("request") == "reset":
                            break
                        answer = steps_to_wire(await episode.step(request.step.actions))
            except EpisodeError as error:
                yield fault_to_wire(error)
                return
            if episode.over:
                yield answer
                request = await self._between(requests)

    async def _between(self, requests: AsyncIterator[pb.EpisodeRequest]) -> pb.EpisodeRequest | None:
        """Return the next request while no episode runs. Raises UnavailableError when the service is stopping."""
        following = asyncio.ensure_future(anext(requests, None))
        draining = asyncio.ensure_future(self._draining.wait())
        try:
            await asyncio.wait((following, draining), return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                raise UnavailableError(STOPPING)
            return following.result()
        finally:
            following.cancel()
            draining.cancel()

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
            quarantined=[quarantined_to_wire(each) for each in self._episodes.quarantine.latest(QUARANTINED_SHOWN)],
            limits=[pb.LimitCheck(name=check.name, held=check.held) for check in self._limits],
        )


@asynccontextmanager
async def serve(config: RunConfig, *, run_dir: Path, address: str, endpoints: Endpoints) -> AsyncIterator[Server]:
    """Serve the sandbox; it keeps no files in ``run_dir`` and calls no other service.

    Raises ConfigurationError if the isolation asked for cannot be given, or a limit that it promises does not hold.
    """
    del run_dir, endpoints
    section = config.sandbox
    async with open_home(section) as home:
        # Before the pool, whose metrics the probes' own pools would write over.
        limits = await checked_limits(home, section)
        async with Pool(home, section) as pool:
            servicer = SandboxServicer(pool, replay_share=section.replay_share, limits=limits)

            def register(server: grpc.aio.Server) -> None:
                sandbox_pb2_grpc.add_SandboxServiceServicer_to_server(servicer, server)

            server = Server(address=address, services=[SERVICE], register=register, tls=config.tls)
            await server.start()
            try:
                yield server
            finally:
                servicer.drain()
                await server.stop(section.drain_seconds)
