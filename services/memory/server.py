"""The memory service's gRPC edge.

All work on the archive runs in one thread of its own, one piece at a time: the event loop never waits for a disk,
and the archive needs no locks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import grpc

from spade_rl.config import Endpoints, MemorySection, RunConfig
from spade_rl.config_files import archive_url
from spade_rl.memory import retrieval, wire
from spade_rl.memory.archive import Archive
from spade_rl.memory.metrics import RECORDED, SECONDS, SEEDS
from spade_rl.rpc import Server
from spade_rl.seeds import derive_seed
from spade_rl.telemetry import identify
from spade_rl.v1 import memory_pb2 as pb
from spade_rl.v1 import memory_pb2_grpc

SERVICE_NAME = "spade_rl.v1.MemoryService"
_T = TypeVar("_T")


class MemoryServicer(memory_pb2_grpc.MemoryServiceServicer):
    """Answers from one archive."""

    def __init__(self, archive: Archive, config: MemorySection, executor: ThreadPoolExecutor) -> None:
        self._archive = archive
        self._config = config
        self._executor = executor

    async def _do(self, operation: str, work: Callable[[], _T]) -> _T:
        def timed() -> _T:
            with SECONDS.labels(operation).time():
                return work()

        return await asyncio.get_running_loop().run_in_executor(self._executor, timed)

    async def _pages(self, operation: str, pages: Iterator[list[_T]]) -> AsyncIterator[_T]:
        while (page := await self._do(operation, partial(next, pages, None))) is not None:
            for item in page:
                yield item

    async def Record(self, request: pb.RecordRequest, context: grpc.aio.ServicerContext) -> pb.RecordResponse:
        """Keep what a cycle brings."""
        identify(run_id=request.run_id, cycle=request.cycle)
        counts = await self._do("record", lambda: self._archive.record(wire.record_from(request)))
        RECORDED.labels("attempt").inc(counts.attempts)
        RECORDED.labels("environment").inc(counts.environments)
        RECORDED.labels("trajectory").inc(counts.trajectories)
        return pb.RecordResponse(
            new_attempts=counts.attempts, new_environments=counts.environments, new_trajectories=counts.trajectories
        )

    async def SampleSeeds(
        self,
        request: pb.SampleSeedsRequest,
        context: grpc.aio.ServicerContext,
    ) -> pb.SampleSeedsResponse:
        """Draw examples for the designer."""
        return await self._do("sample_seeds", lambda: self._sample(request))

    def _sample(self, request: pb.SampleSeedsRequest) -> pb.SampleSeedsResponse:
        run_id, skill, before, recent = request.run_id, request.skill, request.before_cycle, self._config.recent
        stored = self._archive.environments(run_id, skill=skill, before_cycle=before, newest_played=recent)
        refused = (
            self._archive.refused(run_id, skill=skill, before_cycle=before, newest=recent) if request.negatives else []
        )
        good = retrieval.positives(
            stored,
            request.positives,
            seed=derive_seed(request.seed, "positives"),
            learnable=self._config.learnable,
        )
        bad = retrieval.negatives(stored, refused, request.negatives, seed=derive_seed(request.seed, "negatives"))
        SEEDS.labels("positive").inc(len(good))
        SEEDS.labels("negative").inc(len(bad))
        return pb.SampleSeedsResponse(
            positives=[wire.seed_message(example) for example in good],
            negatives=[wire.seed_message(example) for example in bad],
        )

    async def ListEnvironments(
        self,
        request: pb.ListEnvironmentsRequest,
        context: grpc.aio.ServicerContext,
    ) -> AsyncIterator[pb.ListEnvironmentsResponse]:
        """Stream environments with their newest statistics."""
        stored = await self._do(
            "list_environments",
            lambda: self._archive.environments(
                request.run_id, skill=request.skill, digest_prefix=request.digest_prefix
            ),
        )
        for environment in stored:
            yield wire.stored_message(environment)

    async def ListAttempts(
        self,
        request: pb.ListAttemptsRequest,
        context: grpc.aio.ServicerContext,
    ) -> AsyncIterator[pb.ListAttemptsResponse]:
        """Stream attempts, cycle by cycle."""
        pages = self._archive.attempts(request.run_id, first_cycle=request.first_cycle)
        async for attempt in self._pages("list_attempts", pages):
            yield wire.attempt_message(attempt)

    async def ListTrajectories(
        self,
        request: pb.ListTrajectoriesRequest,
        context: grpc.aio.ServicerContext,
    ) -> AsyncIterator[pb.ListTrajectoriesResponse]:
        """Stream trajectories, with or without their tokens."""
        pages = self._archive.trajectories(
            request.run_id,
            digest_prefix=request.environment_digest,
            trajectory_id=request.trajectory_id,
            limit=request.limit,
            tokens=not request.text_only,
        )
        async for trajectory in self._pages("list_trajectories", pages):
            yield pb.ListTrajectoriesResponse(trajectory=wire.trajectory_message(trajectory))

    async def ListNormalisedDigests(
        self,
        request: pb.ListNormalisedDigestsRequest,
        context: grpc.aio.ServicerContext,
    ) -> pb.ListNormalisedDigestsResponse:
        """Return what a new source must not equal."""
        digests = await self._do("list_digests", lambda: self._archive.normalised_digests(request.run_id))
        return pb.ListNormalisedDigestsResponse(digests=digests)

    async def Rollback(self, request: pb.RollbackRequest, context: grpc.aio.ServicerContext) -> pb.RollbackResponse:
        """Forget later cycles."""
        environments, trajectories = await self._do(
            "rollback", lambda: self._archive.rollback(request.run_id, request.last_cycle)
        )
        return pb.RollbackResponse(environments=environments, trajectories=trajectories)


@asynccontextmanager
async def serve(config: RunConfig, *, run_dir: Path, address: str, endpoints: Endpoints) -> AsyncIterator[Server]:  # noqa: ARG001
    """Serve the archive of a run's folder; the database is opened, and migrated, before anything is answered."""
    loop = asyncio.get_running_loop()
    # Whoever comes first makes it.
    run_dir.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="memory") as executor:
        archive = await loop.run_in_executor(executor, lambda: Archive.open(run_dir, url=archive_url(config.memory)))
        servicer = MemoryServicer(archive, config.memory, executor)
        server = Server(
            address=address,
            services=[SERVICE_NAME],
            register=lambda grpc_server: memory_pb2_grpc.add_MemoryServiceServicer_to_server(servicer, grpc_server),
            tls=config.tls,
        )
        try:
            await server.start()
            yield server
        finally:
            await server.stop()
            await loop.run_in_executor(executor, archive.close)
