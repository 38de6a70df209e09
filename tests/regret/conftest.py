"""A run's services on a tiny random policy: sandbox, agent and regret."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "agent"))

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import grpc
import pytest
from tiny_policy import write_policy

from spade_rl.agent.server import serve as serve_agent
from spade_rl.config import Endpoints
from spade_rl.config_files import load_config
from spade_rl.regret.server import serve as serve_regret
from spade_rl.rpc import open_channel
from spade_rl.sandbox.server import serve as serve_sandbox
from spade_rl.v1 import regret_pb2_grpc


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a random policy."""
    folder = tmp_path_factory.mktemp("policy")
    write_policy(folder)
    return folder


@pytest.fixture
async def channels(policy: Path, tmp_path: Path) -> AsyncIterator[dict[str, grpc.aio.Channel]]:
    """Return channels to the services by name."""
    endpoints = Endpoints(**{name: f"unix:{tmp_path}/{name}.sock" for name in ("sandbox", "agent", "regret")})
    config = load_config(
        overrides=[
            f"model={{name: {policy}, prompts: compact}}",
            "sandbox={isolation: process, self_test: false}",
            "designer.max_tokens=8",
            "agent={max_tokens: 8, max_turns: 1000000, history_turns: 0, concurrency: 8, temperature: 1.0}",
            "agent.engine={slots: 8, context_tokens: 256, threads: 1}",
        ]
    )
    opened = {}
    async with AsyncExitStack() as stack:
        for name, serve in (("sandbox", serve_sandbox), ("agent", serve_agent), ("regret", serve_regret)):
            address = getattr(endpoints, name)
            await stack.enter_async_context(serve(config, run_dir=tmp_path, address=address, endpoints=endpoints))
            opened[name] = await stack.enter_async_context(open_channel(address))
        yield opened


@pytest.fixture
def regret(channels: dict[str, grpc.aio.Channel]) -> regret_pb2_grpc.RegretServiceStub:
    """Return a client of a regret service with an agent and a sandbox behind it."""
    return regret_pb2_grpc.RegretServiceStub(channels["regret"])
