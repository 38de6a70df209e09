"""The regret service over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import grpc

from spade_rl.config import Endpoints, RunConfig
from spade_rl.errors import ConfigurationError, DeadlineError
from spade_rl.regret import metrics
from spade_rl.regret.evaluation import Evaluation, PlannedPlay, Played, evaluate, plan
from spade_rl.regret.rewards import score
from spade_rl.regret.wire import evaluation_to_wire, measured_from_wire, played_from_wire, rollout_request
from spade_rl.rpc import Server, calling, open_channel
from spade_rl.telemetry import identify
from spade_rl.v1 import agent_pb2_grpc, environment_pb2, regret_pb2, regret_pb2_grpc, trajectory_pb2

# Environments whose plays are with the agent at once; the agent itself bounds the episodes in flight.
ENVIRONMENTS_IN_FLIGHT = 256
SILENCE_MARGIN_SECONDS = 120.0


def longest_silence(config: RunConfig) -> float:
    """Return after how many seconds without any trajectory the agent must be stuck.

    An episode ends when its worker does; before it waits for a sandbox and for a worker, and its last reply may take its
    whole deadline; it may be played again.
    """
    sandbox = config.sandbox
    once = sandbox.reachable_seconds + sandbox.queue_seconds + sandbox.episode_seconds + config.agent.reply_seconds
    return once * (1 + config.agent.retries) + SILENCE_MARGIN_SECONDS


class _Watchdog:
    """Ends an evaluation in which nothing happens any more."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._clock = asyncio.get_running_loop().time
        self._latest = self._clock()

    def alive(self) -> None:
        self._latest = self._clock()

    async def wait(self, tasks: set[asyncio.Task[Evaluation[trajectory_pb2.Trajectory]]]) -> None:
        """Return when one of the tasks is done; raise DeadlineError after too long a silence."""
        while True:
            left = self._latest + self._seconds - self._clock()
            if left <= 0:
                raise DeadlineError(f"the agent delivered no trajectory for {self._seconds:g} s")
            done, _ = await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return


class RegretServicer(regret_pb2_grpc.RegretServiceServicer):
    """RegretService on an agent service."""

    def __init__(self, channel: grpc.aio.Channel, *, silence_seconds: float) -> None:
        self._agent = agent_pb2_grpc.AgentServiceStub(channel)
        self._silence_seconds = silence_seconds

    async def Evaluate(
        self, request: regret_pb2.EvaluateRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[regret_pb2.EvaluateResponse]:
        """Stream one evaluation for every environment, as its plays have ended."""
        identify(run_id=request.run_id, cycle=request.cycle)
        digests = [environment.digest for environment in request.environments]
        if len(set(digests)) < len(digests):
            raise ConfigurationError("an environment stands twice in the request; its plays could not be told apart")
        places = asyncio.Semaphore(ENVIRONMENTS_IN_FLIGHT)
        watchdog = _Watchdog(self._silence_seconds)

        async def one(environment: environment_pb2.Environment) -> Evaluation[trajectory_pb2.Trajectory]:
            identify(environment=environment.digest[:16])
            planned = plan(
                environment.digest,
                run_id=request.run_id,
                run_seed=request.run_seed,
                cycle=request.cycle,
                plays=request.plays,
                hinted=request.hinted and bool(environment.hint),
            )
            async with places:
                return await evaluate(
                    environment.digest, planned, self._rollout(environment, request.cycle, watchdog.alive)
                )

        tasks = {asyncio.create_task(one(environment)) for environment in request.environments}
        pending = set(tasks)
        try:
            while pending:
                await watchdog.wait(pending)
                for task in [task for task in pending if task.done()]:
                    pending.remove(task)
                    evaluation = await task
                    _count(evaluation)
                    yield evaluation_to_wire(evaluation)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _rollout(
        self, environment: environment_pb2.Environment, cycle: int, alive: Callable[[], None]
    ) -> Callable[[Sequence[PlannedPlay]], AsyncGenerator[Played[trajectory_pb2.Trajectory], None]]:
        async def rollout(planned: Sequence[PlannedPlay]) -> AsyncGenerator[Played[trajectory_pb2.Trajectory], None]:
            call = self._agent.Rollout(rollout_request(environment, planned, cycle))
            try:
                async with calling("agent"):
                    async for response in call:
                        alive()
                        yield played_from_wire(response.trajectory)
            finally:
                call.cancel()

        return rollout

    async def Score(
        self, request: regret_pb2.ScoreRequest, context: grpc.aio.ServicerContext
    ) -> regret_pb2.ScoreResponse:
        """Return the designer's rewards."""
        return regret_pb2.ScoreResponse(
            rewards=[score(request.variant, measured_from_wire(message)) for message in request.inputs]
        )


def _count(evaluation: Evaluation[trajectory_pb2.Trajectory]) -> None:
    metrics.EVALUATIONS.labels("quarantined" if evaluation.quarantine_reason else "played").inc()
    metrics.VOID_PLAYS.inc(len(evaluation.void))
    if evaluation.regret.pairs:
        metrics.REGRET.observe(evaluation.regret.value)


@asynccontextmanager
async def serve(config: RunConfig, *, run_dir: Path, address: str, endpoints: Endpoints) -> AsyncIterator[Server]:  # noqa: ARG001
    """Serve the regret service until the block is left."""
    if endpoints.agent is None:
        raise ConfigurationError("the regret service needs endpoints.agent: where the agent service listens")
    async with open_channel(endpoints.agent, config.tls) as channel:
        servicer = RegretServicer(channel, silence_seconds=longest_silence(config))
        server = Server(
            address=address,
            services=["spade_rl.v1.RegretService"],
            register=lambda s: regret_pb2_grpc.add_RegretServiceServicer_to_server(servicer, s),
            tls=config.tls,
        )
        await server.start()
        try:
            yield server
        finally:
            await server.stop()
