"""The services as the coordinator calls them: every call has a deadline, and errors name the service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path

from spade_rl.config import Endpoints, TlsSection
from spade_rl.coordinator.demand import WORKERS_PER_ADMISSION, Demand
from spade_rl.elastic import ElasticChannel
from spade_rl.errors import ConfigurationError
from spade_rl.rpc import LOCAL, calling, open_channel
from spade_rl.v1 import (
    agent_pb2,
    agent_pb2_grpc,
    designer_pb2,
    designer_pb2_grpc,
    environment_pb2,
    inference_pb2,
    inference_pb2_grpc,
    learner_pb2,
    learner_pb2_grpc,
    memory_pb2,
    memory_pb2_grpc,
    regret_pb2,
    regret_pb2_grpc,
    sandbox_pb2,
    sandbox_pb2_grpc,
    trajectory_pb2,
)

Progress = Callable[[int], None]
SAMPLES_PER_MESSAGE = 512
NEEDED = ("designer", "sandbox", "agent", "regret", "memory", "learner")


class Services:
    """Stubs of all services behind one deadline for a stage. What they are asked for counts in ``demand``."""

    def __init__(
        self, endpoints: Endpoints, stage_seconds: float, tls: TlsSection = LOCAL, *, demand: Demand | None = None
    ) -> None:
        missing = [name for name in NEEDED if getattr(endpoints, name) is None]
        if missing:
            raise ConfigurationError(f"endpoints.{missing[0]} is not set: every service needs an address, or none")
        targets = {name: str(getattr(endpoints, name)) for name in NEEDED}
        targets["inference"] = endpoints.inference or targets["agent"]
        self._sandbox = ElasticChannel(
            targets.pop("sandbox"), tls, service="sandbox", reachable_seconds=stage_seconds, call_seconds=stage_seconds
        )
        self._channels = {name: open_channel(target, tls) for name, target in targets.items()}
        self._timeout = stage_seconds
        self._demand = Demand() if demand is None else demand
        self._agent = agent_pb2_grpc.AgentServiceStub(self._channels["agent"])
        self._designer = designer_pb2_grpc.DesignerServiceStub(self._channels["designer"])
        self._inference = inference_pb2_grpc.InferenceServiceStub(self._channels["inference"])
        self._learner = learner_pb2_grpc.LearnerServiceStub(self._channels["learner"])
        self._memory = memory_pb2_grpc.MemoryServiceStub(self._channels["memory"])
        self._regret = regret_pb2_grpc.RegretServiceStub(self._channels["regret"])

    async def close(self) -> None:
        """Close every channel."""
        await self._sandbox.close()
        for channel in self._channels.values():
            await channel.close()

    async def isolation(self, slots: int = 0) -> str:
        """Return the sandbox's isolation level: gvisor, bubblewrap or process. Waits for a sandbox.

        It wants what the design of so many slots will, so that not only the first sandbox is started meanwhile.
        """
        with self._demand.of(max(1, WORKERS_PER_ADMISSION * slots)):
            channel = await self._sandbox.ready()
            async with calling("sandbox"):
                stub = sandbox_pb2_grpc.SandboxServiceStub(channel)
                status = await stub.GetStatus(sandbox_pb2.GetStatusRequest(), timeout=self._timeout)
        name = environment_pb2.IsolationLevel.Name(status.isolation)
        return name.removeprefix("ISOLATION_LEVEL_").lower()

    async def design(
        self, request: designer_pb2.DesignRequest, progress: Progress
    ) -> tuple[list[designer_pb2.DesignedSlot], str]:
        """Return the slots in order, and the cursor where the corpus goes on."""
        slots: list[designer_pb2.DesignedSlot] = []
        cursor = request.grounding_cursor
        with self._demand.of(WORKERS_PER_ADMISSION * len(request.skills)) as wanted:
            async with calling("designer"):
                async for response in self._designer.Design(request, timeout=self._timeout):
                    if response.HasField("done"):
                        cursor = response.done.grounding_cursor
                    else:
                        slots.append(response.slot)
                        wanted.done(WORKERS_PER_ADMISSION)
                        progress(len(slots))
        return sorted(slots, key=lambda slot: slot.slot), cursor

    async def evaluate(
        self, request: regret_pb2.EvaluateRequest, progress: Progress
    ) -> dict[str, regret_pb2.EvaluateResponse]:
        """Return the evaluation of every environment by digest, in the order of the request."""
        found: dict[str, regret_pb2.EvaluateResponse] = {}
        plays = {e.digest: request.plays * (2 if request.hinted and e.hint else 1) for e in request.environments}
        with self._demand.of(sum(plays.values())) as wanted:
            async with calling("regret"):
                async for response in self._regret.Evaluate(request, timeout=self._timeout):
                    found[response.digest] = response
                    wanted.done(plays[response.digest])
                    progress(len(found))
        # Not in the order in which plays happened to end: the same run must train on the same batches.
        return {e.digest: found[e.digest] for e in request.environments if e.digest in found}

    async def score(self, request: regret_pb2.ScoreRequest) -> list[float]:
        """Return the designer's rewards in the order of the inputs."""
        async with calling("regret"):
            response = await self._regret.Score(request, timeout=self._timeout)
        return list(response.rewards)

    async def train(
        self, update: int, samples: Sequence[learner_pb2.Sample], *, seed: int
    ) -> learner_pb2.TrainResponse:
        """Have the learner make one update of a run with this seed; returns the version that it published."""
        requests = (
            learner_pb2.TrainRequest(samples=chunk, update=update, total=len(samples), run_seed=seed)
            for chunk in _chunks(samples, SAMPLES_PER_MESSAGE)
        )
        async with calling("learner"):
            return await self._learner.Train(requests, timeout=self._timeout)

    async def load_version(self, version: int, uri: str) -> None:
        """Have the engine sample from a published version."""
        request = inference_pb2.LoadVersionRequest(policy_version=version, uri=uri)
        async with calling("inference"):
            await self._inference.LoadVersion(request, timeout=self._timeout)

    async def engine(self) -> inference_pb2.GetVersionResponse:
        """Return what the engine says of itself."""
        async with calling("inference"):
            return await self._inference.GetVersion(inference_pb2.GetVersionRequest(), timeout=self._timeout)

    async def policy(self) -> learner_pb2.GetPolicyResponse:
        """Return the newest published version."""
        async with calling("learner"):
            return await self._learner.GetPolicy(learner_pb2.GetPolicyRequest(), timeout=self._timeout)

    async def save_learner(self, folder: Path) -> None:
        """Have the learner write its part of a checkpoint."""
        async with calling("learner"):
            request = learner_pb2.SaveCheckpointRequest(uri=str(folder))
            await self._learner.SaveCheckpoint(request, timeout=self._timeout)

    async def load_learner(self, folder: Path) -> learner_pb2.LoadCheckpointResponse:
        """Have the learner go back to a checkpoint."""
        async with calling("learner"):
            request = learner_pb2.LoadCheckpointRequest(uri=str(folder))
            return await self._learner.LoadCheckpoint(request, timeout=self._timeout)

    async def record(self, request: memory_pb2.RecordRequest) -> None:
        """Have memory keep a cycle."""
        async with calling("memory"):
            await self._memory.Record(request, timeout=self._timeout)

    async def rollback(self, run_id: str, last_cycle: int) -> None:
        """Have memory forget what came after a cycle."""
        async with calling("memory"):
            request = memory_pb2.RollbackRequest(run_id=run_id, last_cycle=last_cycle)
            await self._memory.Rollback(request, timeout=self._timeout)

    async def attempts(self, run_id: str) -> AsyncIterator[memory_pb2.ListAttemptsResponse]:
        """Yield the attempts of a run, cycle by cycle."""
        async with calling("memory"):
            request = memory_pb2.ListAttemptsRequest(run_id=run_id)
            async for response in self._memory.ListAttempts(request, timeout=self._timeout):
                yield response

    async def environments(self, run_id: str) -> AsyncIterator[memory_pb2.ListEnvironmentsResponse]:
        """Yield the environments of a run with their newest statistics."""
        async with calling("memory"):
            request = memory_pb2.ListEnvironmentsRequest(run_id=run_id)
            async for response in self._memory.ListEnvironments(request, timeout=self._timeout):
                yield response

    async def trajectories(self, run_id: str) -> AsyncIterator[trajectory_pb2.Trajectory]:
        """Yield the trajectories of a run, cycle by cycle."""
        async with calling("memory"):
            request = memory_pb2.ListTrajectoriesRequest(run_id=run_id)
            async for response in self._memory.ListTrajectories(request, timeout=self._timeout):
                yield response.trajectory

    async def rollout(self, request: agent_pb2.RolloutRequest) -> AsyncIterator[trajectory_pb2.Trajectory]:
        """Yield trajectories as they end."""
        with self._demand.of(len(request.plays)) as wanted:
            async with calling("agent"):
                async for response in self._agent.Rollout(request, timeout=self._timeout):
                    wanted.done(1)
                    yield response.trajectory


@asynccontextmanager
async def connected(
    endpoints: Endpoints, stage_seconds: float, tls: TlsSection = LOCAL, *, demand: Demand | None = None
) -> AsyncIterator[Services]:
    """Around the use of all services."""
    services = Services(endpoints, stage_seconds, tls, demand=demand)
    try:
        yield services
    finally:
        await services.close()


def _chunks(samples: Iterable[learner_pb2.Sample], size: int) -> Iterator[list[learner_pb2.Sample]]:
    iterator = iter(samples)
    while chunk := list(islice(iterator, size)):
        yield chunk
