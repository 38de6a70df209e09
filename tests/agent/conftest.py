"""A tiny random policy, an engine on it, and the services around it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tiny_policy import write_policy

from spade_rl.agent.engine.transformers_engine import TransformersEngine
from spade_rl.agent.server import serve
from spade_rl.config import Endpoints, EngineSection
from spade_rl.config_files import load_config
from spade_rl.models import ChatTokenizer
from spade_rl.rpc import open_channel
from spade_rl.sandbox.server import serve as serve_sandbox

MakePolicy = Callable[..., Path]
OpenEngine = Callable[..., Awaitable[TransformersEngine]]


@pytest.fixture(scope="session")
def make_policy(tmp_path_factory: pytest.TempPathFactory) -> MakePolicy:
    """Return a function that writes a random policy and returns its folder."""

    def make(seed: int = 0, **kind: bool) -> Path:
        folder = tmp_path_factory.mktemp("policy")
        write_policy(folder, seed, **kind)
        return folder

    return make


@pytest.fixture(scope="session")
def policy(make_policy: MakePolicy) -> Path:
    """Return the folder of one random policy."""
    return make_policy()


@pytest.fixture(scope="session")
def tokenizer(policy: Path) -> ChatTokenizer:
    """Return its tokenizer."""
    return ChatTokenizer(str(policy))


@pytest.fixture
def eventually() -> Callable[[Callable[[], Awaitable[bool]]], Awaitable[None]]:
    """Return a function that waits until a condition holds, at most 30 seconds."""

    async def wait(condition: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(30):
            while not await condition():  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    return wait


@pytest.fixture
async def open_engine() -> AsyncIterator[OpenEngine]:
    """Return a function that opens engines; they are closed after the test."""
    engines: list[TransformersEngine] = []

    async def opened(folder: Path, *, dtype: str = "float32", **settings: int) -> TransformersEngine:
        section = EngineSection(**{"slots": 4, "context_tokens": 128, "threads": 1, **settings})
        engine = await TransformersEngine.open(str(folder), ChatTokenizer(str(folder)), section, dtype=dtype)
        engines.append(engine)
        return engine

    yield opened
    for engine in engines:
        await engine.close()


@asynccontextmanager
async def _sandbox(folder: Path, name: str, *overrides: str) -> AsyncIterator[str]:
    address = f"unix:{folder}/{name}.sock"
    config = load_config(overrides=["sandbox={isolation: process, self_test: false}", *overrides])
    async with serve_sandbox(config, run_dir=folder, address=address, endpoints=Endpoints()):
        yield address


@pytest.fixture
async def sandbox_address(tmp_path: Path) -> AsyncIterator[str]:
    """Return where a sandbox listens that runs the tests' own environments in plain processes."""
    async with _sandbox(tmp_path, "sandbox") as address:
        yield address


@pytest.fixture
async def doubting_sandbox(tmp_path: Path) -> AsyncIterator[str]:
    """Return where a sandbox listens that plays every episode twice."""
    async with _sandbox(tmp_path, "doubting", "sandbox.replay_share=1") as address:
        yield address


@pytest.fixture
async def serve_agent(policy: Path, tmp_path: Path, sandbox_address: str):
    """Return a function that serves the agent with overrides of the configuration, and returns a channel to it."""
    async with AsyncExitStack() as stack:

        async def served(*overrides: str, folder: Path = policy, **endpoints: str):
            index = len(list(tmp_path.glob("agent-*"))) + 1
            address = f"unix:{tmp_path}/agent-{index}.sock"
            config = load_config(
                overrides=[
                    f"model={{name: {folder}, prompts: compact}}",
                    "designer.max_tokens=8",
                    "agent={max_tokens: 8, max_turns: 6, history_turns: 0, concurrency: 8, reply_seconds: 60}",
                    "agent.engine={slots: 8, context_tokens: 256, threads: 1}",
                    *overrides,
                ]
            )
            await stack.enter_async_context(
                serve(
                    config,
                    run_dir=tmp_path,
                    address=address,
                    endpoints=Endpoints(**{"sandbox": sandbox_address, "agent": address, **endpoints}),
                )
            )
            return await stack.enter_async_context(open_channel(address))

        yield served
