"""The gRPC edge of the sandbox service, and its life from start to stop."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import grpc

from spade_rl.config import Endpoints, Isolation, RunConfig, SandboxSection
from spade_rl.errors import ConfigurationError, UnavailableError
from spade_rl.rpc import Server
from spade_rl.sandbox import metrics
from spade_rl.sandbox.admission import admit
from spade_rl.sandbox.cgroup import find_cgroups
from spade_rl.sandbox.episode import SEEDS, open_episode
from spade_rl.sandbox.episode import Episode as RunningEpisode
from spade_rl.sandbox.launch import Home, base_folder, end_users_of, make_folder, remove_stale
from spade_rl.sandbox.limits import EpisodeError, limits_of
from spade_rl.sandbox.pool import Pool
from spade_rl.sandbox.probes import promised
from spade_rl.sandbox.quarantine import Quarantine
from spade_rl.sandbox.replay import is_replayed
from spade_rl.sandbox.rootfs import ensure_rootfs, running_interpreter
from spade_rl.sandbox.runtime import find_runtime
from spade_rl.sandbox.selftest import LimitCheck, checked_limits, try_limits
from spade_rl.sandbox.wire import (
    fault_to_wire,
    isolation_to_wire,
    kind_from_wire,
    quarantined_to_wire,
    report_to_wire,
    reset_to_wire,
    steps_to_wire,
)
from spade_rl.seeds import source_digest
from spade_rl.telemetry import get_logger
from spade_rl.v1 import sandbox_pb2 as pb
from spade_rl.v1 import sandbox_pb2_grpc

SERVICE = "spade_rl.v1.SandboxService"
QUARANTINED_SHOWN = 64
STOPPING = (
    "this sandbox service is shutting down and begins nothing new; ask again: another instance, or a little later"
)

_log = get_logger(__name__)


class SandboxServicer(sandbox_pb2_grpc.SandboxServiceServicer):
    """Translates calls; the work is the pool's. ``limits``: what the self-test found, if there was one."""

    def __init__(self, pool: Pool, *, replay_share: float, limits: Sequence[LimitCheck]) -> None:
        self._pool = pool
        self._replay_share = replay_share
        self._limits = limits
        self._quarantine = Quarantine()
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
        )
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
            reset = request.reset
            try:
                async with self._opened(reset) as episode:
                    answer = reset_to_wire(await episode.reset(reset.seed))
                    while not episode.over:
                        yield answer
                        request = await anext(requests, None)
                        if request is None or request.WhichOneof("request") == "reset":
                            break
                        answer = steps_to_wire(await episode.step(request.step.actions))
                    if episode.over:
                        # What another episode was caught at in the meantime voids this one too.
                        self._quarantine.check(source_digest(reset.source))
            except EpisodeError as error:
                self._blame(reset.source, error)
                yield fault_to_wire(error)
                return
            metrics.EPISODES.labels("over" if episode.over else "left").inc()
            if episode.over:
                yield answer
                request = await self._between(requests)

    def _opened(self, reset: pb.ResetRequest) -> AbstractAsyncContextManager[RunningEpisode]:
        digest = source_digest(reset.source)
        self._quarantine.check(digest)
        return open_episode(
            self._pool, reset.source, replayed=is_replayed(self._replay_share, digest, reset.seed % SEEDS)
        )

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

    def _blame(self, source: str, error: EpisodeError) -> None:
        metrics.FAULTS.labels(error.origin.value, error.kind.value).inc()
        metrics.EPISODES.labels("fault").inc()
        digest = source_digest(source)
        if self._quarantine.judge(digest, error):
            _log.warning(
                "an environment is put under quarantine", digest=digest, kind=error.kind.value, why=error.message
            )
            self._pool.forget(digest)

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
            quarantined=[quarantined_to_wire(each) for each in self._quarantine.latest(QUARANTINED_SHOWN)],
            limits=[pb.LimitCheck(name=check.name, held=check.held) for check in self._limits],
        )


@asynccontextmanager
async def open_home(section: SandboxSection) -> AsyncIterator[Home]:
    """Prepare what sandboxes are made of on this machine; leave nothing behind, neither files nor processes.

    Raises ConfigurationError, which says what to do, if the isolation asked for cannot be given.
    """
    base = base_folder()
    folder, lock = make_folder(base)
    try:
        home = await asyncio.get_running_loop().run_in_executor(None, _prepare, section, base, folder)
        if home.runtime.isolation is not Isolation.GVISOR:
            _log.warning("generated code runs without gVisor, as configured", isolation=home.runtime.isolation.value)
        try:
            yield home
        finally:
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, end_users_of, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


@asynccontextmanager
async def open_pool(section: SandboxSection) -> AsyncIterator[Pool]:
    """Start what runs environments on this machine; raises what ``open_home`` raises."""
    async with open_home(section) as home, Pool(home, section) as pool:
        yield pool


async def limits_here(section: SandboxSection) -> tuple[LimitCheck, ...]:
    """Return what a self-test finds on this machine, without serving.

    Raises ConfigurationError if the isolation asked for cannot be given, SandboxError if a probe could not run.
    """
    async with open_home(section) as home:
        return await try_limits(home, section, promised(home.runtime.isolation))


async def _tried_limits(home: Home, section: SandboxSection) -> tuple[LimitCheck, ...]:
    if section.self_test:
        return await checked_limits(home, section)
    _log.info("the limits of the sandbox are not tried, as configured")
    return ()


def _prepare(section: SandboxSection, base: Path, folder: Path) -> Home:
    removed = remove_stale(base)
    if removed:
        _log.warning("removed what dead sandbox services had left", services=removed)
    interpreter = running_interpreter()
    root = ensure_rootfs(interpreter)
    runtime = find_runtime(section, root, folder / "state")
    cgroups = None if runtime.pod else find_cgroups()
    _log.info("the memory of sandboxes is watched", cgroup=None if cgroups is None else f"version {cgroups.version}")
    return Home(folder, root, interpreter, runtime, limits_of(section), cgroups)


@asynccontextmanager
async def serve(config: RunConfig, *, run_dir: Path, address: str, endpoints: Endpoints) -> AsyncIterator[Server]:
    """Serve the sandbox; it keeps no files in ``run_dir`` and calls no other service.

    Raises ConfigurationError if the isolation asked for cannot be given, or a limit that it promises does not hold.
    """
    del run_dir, endpoints
    section = config.sandbox
    async with open_home(section) as home:
        # Before the pool, whose metrics the probes' own pools would write over.
        limits = await _tried_limits(home, section)
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
