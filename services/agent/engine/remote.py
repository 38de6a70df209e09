"""An engine in another process: ``Engine`` over the InferenceService."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import grpc

from spade_rl.agent.engine.interface import EngineStatus, Generation, Prompt
from spade_rl.agent.wire import generation_from_wire, prompts_to_wire, status_from_wire
from spade_rl.rpc import calling
from spade_rl.v1 import inference_pb2, inference_pb2_grpc

STATUS_SECONDS = 30.0


class RemoteEngine:
    """Implements ``Engine`` on a channel, which stays the caller's to close. Made by ``connect``."""

    def __init__(self, channel: grpc.aio.Channel, context_length: int) -> None:
        self._stub = inference_pb2_grpc.InferenceServiceStub(channel)
        self.context_length = context_length

    @classmethod
    async def connect(cls, channel: grpc.aio.Channel, *, seconds: float) -> RemoteEngine:
        """Wait until the service answers, and learn its context length."""
        engine = cls(channel, 0)
        async with calling("inference"):
            response = await engine._stub.GetVersion(
                inference_pb2.GetVersionRequest(), timeout=seconds, wait_for_ready=True
            )
        engine.context_length = response.context_length
        return engine

    async def generate(self, prompts: Sequence[Prompt], *, seconds: float) -> AsyncGenerator[Generation, None]:
        """See ``Engine.generate``."""
        call = self._stub.Generate(prompts_to_wire(prompts), timeout=seconds)
        try:
            async with calling("inference"):
                async for response in call:
                    yield generation_from_wire(response)
        finally:
            call.cancel()

    async def load(self, version: int, uri: str, *, seconds: float) -> None:
        """See ``Engine.load``."""
        async with calling("inference"):
            await self._stub.LoadVersion(
                inference_pb2.LoadVersionRequest(policy_version=version, uri=uri), timeout=seconds
            )

    async def status(self) -> EngineStatus:
        """See ``Engine.status``."""
        async with calling("inference"):
            return status_from_wire(
                await self._stub.GetVersion(inference_pb2.GetVersionRequest(), timeout=STATUS_SECONDS)
            )
