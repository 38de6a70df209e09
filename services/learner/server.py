"""The learner's gRPC edge. All work that touches the model runs on one thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import grpc

from spade_rl.config import Endpoints, RunConfig
from spade_rl.errors import CapacityError, ConfigurationError, DeadlineError, LearnerError
from spade_rl.learner import metrics
from spade_rl.learner.engines import make_engine
from spade_rl.learner.files import local_path
from spade_rl.learner.learner import Learner, Update
from spade_rl.learner.publish import Publisher
from spade_rl.learner.samples import ROLES, Sample
from spade_rl.learner.wire import to_response, to_sample
from spade_rl.models import model_location
from spade_rl.rpc import Server
from spade_rl.telemetry import get_logger, identify
from spade_rl.v1 import learner_pb2, learner_pb2_grpc

T = TypeVar("T")

_log = get_logger(__name__)


def build_learner(config: RunConfig, run_dir: Path) -> Learner:
    """Load the starting policy and publish it as version 0."""
    location = model_location(config.model.name)
    publisher = Publisher(
        run_dir / "weights", location=location, dtype=config.model.dtype, keep=config.learner.keep_versions
    )
    return Learner(config, make_engine(config, location), publisher)


class LearnerServicer(learner_pb2_grpc.LearnerServiceServicer):
    """Translates between the wire and a learner that lives on ``executor``'s only thread."""

    def __init__(
        self, learner: Learner, executor: ThreadPoolExecutor, on_lost: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """``on_lost`` is awaited when the learner's processes have lost each other, which only a restart mends."""
        self._learner, self._executor, self._on_lost = learner, executor, on_lost
        self._training = False

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        except DeadlineError:
            if self._on_lost is not None:
                await self._on_lost()
            raise

    async def Train(
        self, requests: AsyncIterator[learner_pb2.TrainRequest], context: grpc.aio.ServicerContext
    ) -> learner_pb2.TrainResponse:
        """Collect the stream, then take one update; the update goes on if the caller leaves while it runs."""
        if self._training:
            raise CapacityError("another update is running; wait for its answer and send this one again")
        self._training = True
        work: asyncio.Future[Update] | None = None
        try:
            update, samples, seed = await _collected(requests)
            identify(update=update)
            work = asyncio.ensure_future(self._run(lambda: self._learner.train(update, samples, seed=seed)))
            work.add_done_callback(lambda _: setattr(self, "_training", False))
            done = await asyncio.shield(work)
        finally:
            if work is None:
                self._training = False
        if done.fresh:
            _observe(done)
        return to_response(done)

    async def SaveCheckpoint(
        self, request: learner_pb2.SaveCheckpointRequest, context: grpc.aio.ServicerContext
    ) -> learner_pb2.SaveCheckpointResponse:
        """Write a checkpoint."""
        folder = local_path(request.uri)
        version = await self._run(lambda: self._learner.save(folder))
        return learner_pb2.SaveCheckpointResponse(policy_version=version)

    async def LoadCheckpoint(
        self, request: learner_pb2.LoadCheckpointRequest, context: grpc.aio.ServicerContext
    ) -> learner_pb2.LoadCheckpointResponse:
        """Restore a checkpoint and publish its policy."""
        folder = local_path(request.uri)
        loaded = await self._run(lambda: self._learner.load(folder))
        metrics.VERSION.set(loaded.policy_version)
        return learner_pb2.LoadCheckpointResponse(policy_version=loaded.policy_version, uri=loaded.uri)

    async def GetPolicy(
        self, request: learner_pb2.GetPolicyRequest, context: grpc.aio.ServicerContext
    ) -> learner_pb2.GetPolicyResponse:
        """Name the newest published version, also while an update runs."""
        published = self._learner.published
        return learner_pb2.GetPolicyResponse(
            policy_version=published.policy_version, uri=published.uri, engine=self._learner.engine
        )


async def _collected(requests: AsyncIterator[learner_pb2.TrainRequest]) -> tuple[int, list[Sample], int | None]:
    """Return a stream's update, samples and run's seed if it names one; a stream that is not whole is a LearnerError.

    The client's leaving may reach the server as the end of the stream, so the number of samples decides.
    """
    head: tuple[int, int, int | None] | None = None
    samples: list[Sample] = []
    async for request in requests:
        mine = (request.update, request.total, request.run_seed if request.HasField("run_seed") else None)
        if head is not None and mine != head:
            raise ConfigurationError(
                f"one stream names the updates {head[0]} and {mine[0]} with {head[1]} and {mine[1]} samples: "
                "send one update a call, with the same update, total and run_seed in every message"
            )
        head = mine
        samples += [to_sample(message) for message in request.samples]
    if head is None:
        raise ConfigurationError("the stream ended before its first message, which names the update")
    if len(samples) != head[1]:
        raise LearnerError(
            f"the stream of update {head[0]} broke off: {len(samples)} samples came, its total is {head[1]}; "
            "nothing was trained, send it again"
        )
    return head[0], samples, head[2]


def _observe(update: Update) -> None:
    metrics.UPDATES.inc()
    metrics.UPDATED.set_to_current_time()
    metrics.UPDATE_SECONDS.observe(update.metrics["seconds"])
    metrics.VERSION.set(update.policy_version)
    for role in ROLES:
        metrics.TOKENS.labels(role).inc(update.metrics[f"tokens_{role}"])
        metrics.DROPPED.labels(role).inc(update.metrics[f"groups_dropped_{role}"])
    for name, value in update.metrics.items():
        metrics.LAST.labels(name).set(value)
    _log.info("updated", policy_version=update.policy_version, **{k: round(v, 6) for k, v in update.metrics.items()})


@asynccontextmanager
async def serve(
    config: RunConfig,
    *,
    run_dir: Path,
    address: str,
    endpoints: Endpoints,  # noqa: ARG001 - calls no other service
) -> AsyncIterator[Server]:
    """See ``spade_rl.serving.Serve``."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="learner") as executor:
        learner = await loop.run_in_executor(executor, build_learner, config, run_dir)
        metrics.UPDATED.set_to_current_time()
        try:
            servicer = LearnerServicer(learner, executor, lambda: server.give_up())
            server = Server(
                address=address,
                services=[learner_pb2.DESCRIPTOR.services_by_name["LearnerService"].full_name],
                register=lambda target: learner_pb2_grpc.add_LearnerServiceServicer_to_server(servicer, target),
                tls=config.tls,
            )
            await server.start()
            try:
                yield server
            finally:
                await server.stop()
        finally:
            await loop.run_in_executor(executor, learner.close)
