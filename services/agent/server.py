"""The agent and inference services over gRPC, on one server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path

import grpc

from spade_rl.agent.conversation import PromptEncoder
from spade_rl.agent.engine.interface import Engine
from spade_rl.agent.engine.remote import RemoteEngine
from spade_rl.agent.engine.transformers_engine import TransformersEngine
from spade_rl.agent.episode import Rules, play_episode
from spade_rl.agent.rollout import Rollouts
from spade_rl.agent.sandbox_client import SandboxClient
from spade_rl.agent.trajectory import Play, Trajectory
from spade_rl.agent.wire import (
    generation_to_wire,
    plays_from_wire,
    prompts_from_wire,
    status_to_wire,
    trajectory_to_wire,
)
from spade_rl.config import Endpoints, RunConfig
from spade_rl.elastic import ElasticChannel
from spade_rl.errors import ConfigurationError
from spade_rl.models import ChatTokenizer, model_location
from spade_rl.rpc import Server, open_channel
from spade_rl.telemetry import identify
from spade_rl.v1 import agent_pb2, agent_pb2_grpc, inference_pb2, inference_pb2_grpc

# Deadlines of calls whose client set none, and of an engine elsewhere to come up.
LOAD_SECONDS = 600.0
CONNECT_SECONDS = 120.0
# What a sandbox may take beyond its own deadlines: the start of a sandbox, and a busy machine.
SANDBOX_MARGIN_SECONDS = 60.0


def _seconds_left(context: grpc.aio.ServicerContext, otherwise: float) -> float:
    """Return the client's deadline in seconds from now, or ``otherwise`` if it set none."""
    left = context.time_remaining()
    return otherwise if left is None else max(0.0, float(left))


class InferenceServicer(inference_pb2_grpc.InferenceServiceServicer):
    """InferenceService on an engine in this process."""

    def __init__(self, engine: Engine, *, reply_seconds: float) -> None:
        self._engine = engine
        self._reply_seconds = reply_seconds

    async def Generate(
        self, request: inference_pb2.GenerateRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[inference_pb2.GenerateResponse]:
        """Stream generations as they end."""
        seconds = _seconds_left(context, self._reply_seconds)
        async with aclosing(self._engine.generate(prompts_from_wire(request), seconds=seconds)) as generations:
            async for generation in generations:
                yield generation_to_wire(generation)

    async def LoadVersion(
        self, request: inference_pb2.LoadVersionRequest, context: grpc.aio.ServicerContext
    ) -> inference_pb2.LoadVersionResponse:
        """Exchange the weights."""
        start = time.monotonic()
        await self._engine.load(request.policy_version, request.uri, seconds=_seconds_left(context, LOAD_SECONDS))
        return inference_pb2.LoadVersionResponse(
            policy_version=request.policy_version, seconds=time.monotonic() - start
        )

    async def GetVersion(
        self, request: inference_pb2.GetVersionRequest, context: grpc.aio.ServicerContext
    ) -> inference_pb2.GetVersionResponse:
        """Say what is loaded."""
        return status_to_wire(await self._engine.status())


class AgentServicer(agent_pb2_grpc.AgentServiceServicer):
    """AgentService on an engine and a sandbox."""

    def __init__(self, config: RunConfig, *, engine: Engine, sandbox: SandboxClient, encoder: PromptEncoder) -> None:
        self._config = config
        self._engine = engine
        self._sandbox = sandbox
        self._encoder = encoder
        self._rollouts = Rollouts(
            concurrency=config.agent.concurrency,
            retries=config.agent.retries,
            reachable_seconds=config.sandbox.reachable_seconds,
        )

    async def Rollout(
        self, request: agent_pb2.RolloutRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[agent_pb2.RolloutResponse]:
        """Stream trajectories as they end."""
        identify(cycle=request.cycle)
        agent = self._config.agent
        rules = Rules(
            style=self._config.model.prompts,
            temperature=request.temperature if request.HasField("temperature") else agent.temperature,
            max_tokens=agent.max_tokens,
            max_turns=agent.max_turns,
            history_turns=agent.history_turns,
            reply_seconds=agent.reply_seconds,
            returns_only=request.returns_only,
        )

        async def play_once(play: Play) -> Trajectory:
            return await play_episode(
                play, engine=self._engine, open_episode=self._sandbox.episode, encoder=self._encoder, rules=rules
            )

        async with aclosing(self._rollouts.play(plays_from_wire(request), play_once)) as trajectories:
            async for trajectory in trajectories:
                yield agent_pb2.RolloutResponse(trajectory=trajectory_to_wire(trajectory))


@asynccontextmanager
async def _engine(
    config: RunConfig, location: str, tokenizer: ChatTokenizer, endpoints: Endpoints
) -> AsyncIterator[Engine]:
    """Yield the engine in this process, or the one elsewhere that the endpoints name."""
    if endpoints.inference is not None and endpoints.inference != endpoints.agent:
        async with open_channel(endpoints.inference, config.tls) as channel:
            yield await RemoteEngine.connect(channel, seconds=CONNECT_SECONDS)
        return
    engine = await TransformersEngine.open(location, tokenizer, config.agent.engine, dtype=config.model.dtype)
    try:
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def serve(config: RunConfig, *, run_dir: Path, address: str, endpoints: Endpoints) -> AsyncIterator[Server]:  # noqa: ARG001
    """Serve the agent, and the engine unless it is elsewhere, until the block is left."""
    if endpoints.sandbox is None:
        raise ConfigurationError("the agent needs endpoints.sandbox: where the sandbox service listens")
    location = model_location(config.model.name)
    with ThreadPoolExecutor(1) as loader:
        tokenizer = await asyncio.get_running_loop().run_in_executor(loader, ChatTokenizer, location)
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(_engine(config, location, tokenizer, endpoints))
        limits = config.sandbox
        sandbox = SandboxClient(
            await stack.enter_async_context(
                ElasticChannel(
                    endpoints.sandbox,
                    config.tls,
                    service="sandbox",
                    reachable_seconds=limits.reachable_seconds,
                    call_seconds=limits.episode_seconds + SANDBOX_MARGIN_SECONDS,
                )
            ),
            reset_seconds=limits.queue_seconds + limits.call_seconds + SANDBOX_MARGIN_SECONDS,
            step_seconds=limits.call_seconds + SANDBOX_MARGIN_SECONDS,
        )
        agent = AgentServicer(
            config, engine=engine, sandbox=sandbox, encoder=PromptEncoder(tokenizer, config.model.prompts)
        )
        inference = None if isinstance(engine, RemoteEngine) else engine

        def register(server: grpc.aio.Server) -> None:
            agent_pb2_grpc.add_AgentServiceServicer_to_server(agent, server)
            if inference is not None:
                inference_pb2_grpc.add_InferenceServiceServicer_to_server(
                    InferenceServicer(inference, reply_seconds=config.agent.reply_seconds), server
                )

        services = ["spade_rl.v1.AgentService"]
        if inference is not None:
            services.append("spade_rl.v1.InferenceService")
        server = Server(address=address, services=services, register=register, tls=config.tls)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()
