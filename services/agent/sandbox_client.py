"""The sandbox's episodes over gRPC.

The sandbox ends what takes too long; the deadlines here are for a sandbox that does not answer at all. A sandbox service
that is not there yet is waited for; one that goes away in the middle is an UnavailableError.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from spade_rl.agent.episode import Outcome
from spade_rl.elastic import ElasticChannel
from spade_rl.errors import DeadlineError, EnvironmentFault, SandboxError
from spade_rl.rpc import as_spade_error
from spade_rl.v1 import sandbox_pb2, sandbox_pb2_grpc

CLOSE_SECONDS = 5.0


class SandboxEpisode:
    """One open ``Episode`` stream; implements ``EpisodeStream``. Deadlines in seconds."""

    def __init__(self, call: Any, *, reset_seconds: float, step_seconds: float) -> None:
        self._call = call
        self._reset_seconds = reset_seconds
        self._step_seconds = step_seconds

    async def reset(self, source: str, seed: int) -> str:
        """See ``EpisodeStream.reset``."""
        request = sandbox_pb2.EpisodeRequest(reset=sandbox_pb2.ResetRequest(source=source, seed=seed))
        response = await self._ask(request, "reset", self._reset_seconds)
        observation: str = response.reset.observation
        return observation

    async def step(self, action: str) -> Outcome:
        """See ``EpisodeStream.step``."""
        request = sandbox_pb2.EpisodeRequest(step=sandbox_pb2.StepRequest(actions=[action]))
        results = (await self._ask(request, "step", self._step_seconds)).step.results
        if len(results) != 1:
            raise SandboxError(f"the sandbox answered one action with {len(results)} results")
        result = results[0]
        return Outcome(
            observation=result.observation,
            reward=result.reward,
            terminated=result.terminated,
            truncated=result.truncated,
        )

    async def _ask(self, request: sandbox_pb2.EpisodeRequest, kind: str, seconds: float) -> sandbox_pb2.EpisodeResponse:
        try:
            async with asyncio.timeout(seconds):
                # A stream that is over takes nothing more, and reading from it tells why.
                with contextlib.suppress(asyncio.InvalidStateError):
                    await self._call.write(request)
                response = await self._call.read()
        except TimeoutError:
            raise DeadlineError(f"the sandbox did not answer a {kind} within {seconds:g} s") from None
        except grpc.aio.AioRpcError as error:
            raise as_spade_error(error, "sandbox") from error
        if response is grpc.aio.EOF:
            raise SandboxError(f"the sandbox ended the episode instead of answering a {kind}")
        answer = response.WhichOneof("response")
        if answer == "fault":
            fault = response.fault
            blame = EnvironmentFault if fault.origin == sandbox_pb2.FAULT_ORIGIN_ENVIRONMENT else SandboxError
            raise blame(f"{fault.kind}: {fault.message}")
        if answer != kind:
            raise SandboxError(f"the sandbox answered a {kind} with {answer}")
        return response


class SandboxClient:
    """Opens episodes on whatever sandbox services there are."""

    def __init__(self, channel: ElasticChannel, *, reset_seconds: float, step_seconds: float) -> None:
        self._channel = channel
        self._reset_seconds = reset_seconds
        self._step_seconds = step_seconds

    @asynccontextmanager
    async def episode(self) -> AsyncIterator[SandboxEpisode]:
        """Open a stream; its worker is free when the block is left. Raises UnavailableError if nobody serves."""
        call = sandbox_pb2_grpc.SandboxServiceStub(await self._channel.ready()).Episode()
        try:
            yield SandboxEpisode(call, reset_seconds=self._reset_seconds, step_seconds=self._step_seconds)
            await _finish(call)
        finally:
            call.cancel()


async def _finish(call: Any) -> None:
    """Say that there are no more steps, and let the sandbox end the stream by itself."""
    with contextlib.suppress(TimeoutError, grpc.aio.AioRpcError, asyncio.InvalidStateError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await call.done_writing()
            await call.code()
