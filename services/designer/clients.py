"""The services that the designer calls: engine, sandbox and memory. Every wait has a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

import grpc

from spade_rl.config import RunConfig
from spade_rl.designer import wire
from spade_rl.designer.attempts import Reply, Report
from spade_rl.designer.fitting import Seed
from spade_rl.elastic import ElasticChannel, while_unavailable
from spade_rl.errors import CapacityError, DeadlineError, EngineError, SandboxError
from spade_rl.rpc import calling
from spade_rl.telemetry import get_logger
from spade_rl.v1 import inference_pb2, memory_pb2, sandbox_pb2
from spade_rl.v1.inference_pb2_grpc import InferenceServiceStub
from spade_rl.v1.memory_pb2_grpc import MemoryServiceStub
from spade_rl.v1.sandbox_pb2_grpc import SandboxServiceStub

UNARY_SECONDS = 60.0
# Over what the sandbox itself takes at most, so that its own answer arrives first.
MARGIN_SECONDS = 10.0

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Ask:
    """A prompt for the engine."""

    token_ids: tuple[int, ...]
    temperature: float
    max_tokens: int
    seed: int


class Engine:
    """The policy as a sampler."""

    def __init__(self, channel: grpc.aio.Channel, config: RunConfig) -> None:
        self._stub = InferenceServiceStub(channel)
        self._reply_seconds = config.agent.reply_seconds

    async def context_length(self) -> int:
        """Return the longest sequence that the engine takes."""
        async with calling("inference"):
            status = await self._stub.GetVersion(inference_pb2.GetVersionRequest(), timeout=UNARY_SECONDS)
        return status.context_length

    async def generate(self, asks: Sequence[Ask]) -> AsyncGenerator[tuple[int, Reply], None]:
        """Yield one reply for each prompt, with its number, as they are finished.

        Raises DeadlineError when no reply comes for the configured time, EngineError when one is missing.
        """
        request = inference_pb2.GenerateRequest(
            prompts=[
                inference_pb2.Prompt(
                    token_ids=ask.token_ids,
                    sampling=inference_pb2.Sampling(
                        temperature=ask.temperature, max_tokens=ask.max_tokens, seed=ask.seed
                    ),
                )
                for ask in asks
            ]
        )
        missing = set(range(len(asks)))
        async with calling("inference"):
            call = self._stub.Generate(request)
            try:
                while (message := await self._next(call)) is not None:
                    if message.index not in missing:
                        raise EngineError(f"the engine answered prompt {message.index} twice, or was never asked it")
                    missing.remove(message.index)
                    yield message.index, wire.reply_from(message)
            finally:
                call.cancel()
        if missing:
            raise EngineError(f"the engine left {len(missing)} of {len(asks)} prompts without a reply")

    async def _next(self, call: grpc.aio.UnaryStreamCall) -> inference_pb2.GenerateResponse | None:
        try:
            async with asyncio.timeout(self._reply_seconds):
                message = await call.read()
        except TimeoutError as error:
            raise DeadlineError(
                f"the engine gave no reply within {self._reply_seconds:g} s: raise agent.reply_seconds or lower "
                "designer.max_tokens"
            ) from error
        return None if message is grpc.aio.EOF else message


class Sandbox:
    """Where sources are admitted."""

    def __init__(self, channel: ElasticChannel, config: RunConfig) -> None:
        self._channel = channel
        self._reachable_seconds = config.sandbox.reachable_seconds
        self._kind = wire.kind_to_wire(config.designer.kind)
        self._seconds = config.sandbox.admission_seconds + config.sandbox.queue_seconds + MARGIN_SECONDS

    async def admit(self, source: str, *, seed: int, known: Sequence[str]) -> tuple[Report, str]:
        """Return the verdicts on a source and its normalised digest.

        Admission depends on its request alone. So a sandbox that fails is asked once more, and while sandboxes go away
        (they are scaled down, or killed) others are asked, for as long as ``reachable_seconds``.
        """
        request = sandbox_pb2.AdmitRequest(
            source=source,
            kind=self._kind,
            seed=seed,
            known_normalised_digests=known,
        )
        try:
            return await self._while_unavailable(request)
        except (SandboxError, CapacityError) as error:
            _log.warning("admission failed, asking once more", error=str(error))
            return await self._while_unavailable(request)

    async def _while_unavailable(self, request: sandbox_pb2.AdmitRequest) -> tuple[Report, str]:
        return await while_unavailable(
            lambda: self._admit(request),
            seconds=self._reachable_seconds,
            again=lambda error: _log.warning("the sandbox went away, asking another", error=str(error)),
        )

    async def _admit(self, request: sandbox_pb2.AdmitRequest) -> tuple[Report, str]:
        stub = SandboxServiceStub(await self._channel.ready())
        async with calling("sandbox"):
            response = await stub.Admit(request, timeout=self._seconds)
        return wire.report_from(response.report), response.normalised_digest


class Memory:
    """What earlier cycles left."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = MemoryServiceStub(channel)

    async def seeds(
        self, run_id: str, skill: str, *, seed: int, before_cycle: int, positives: int, negatives: int
    ) -> tuple[list[Seed], list[Seed]]:
        """Return positive and negative examples of a skill."""
        async with calling("memory"):
            found = await self._stub.SampleSeeds(
                memory_pb2.SampleSeedsRequest(
                    run_id=run_id,
                    skill=skill,
                    seed=seed,
                    before_cycle=before_cycle,
                    positives=positives,
                    negatives=negatives,
                ),
                timeout=UNARY_SECONDS,
            )
        return [wire.seed_from(s) for s in found.positives], [wire.seed_from(s) for s in found.negatives]

    async def normalised_digests(self, run_id: str) -> list[str]:
        """Return what a new source must not equal."""
        async with calling("memory"):
            found = await self._stub.ListNormalisedDigests(
                memory_pb2.ListNormalisedDigestsRequest(run_id=run_id), timeout=UNARY_SECONDS
            )
        return list(found.digests)
