"""Every limit of an environment has a name; code that exceeds it is stopped, blamed by that name, and counted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from prometheus_client import REGISTRY

from spade_rl.config import Endpoints, Isolation, RunConfig, SandboxSection
from spade_rl.rpc import open_channel
from spade_rl.sandbox.server import serve
from spade_rl.v1 import sandbox_pb2
from spade_rl.v1.sandbox_pb2_grpc import SandboxServiceStub

pytestmark = pytest.mark.asyncio(loop_scope="module")


def program(body: str) -> str:
    """A program whose step runs ``body``."""
    lines = "\n".join("        " + line for line in body.strip("\n").splitlines())
    return f"""
class Env:
    def reset(self, seed):
        return "ready", {{}}
    def step(self, action):
        import os, time
{lines}
        return "done", 0.0, False, False, {{}}
"""


@asynccontextmanager
async def served(section: SandboxSection, folder: Path, **settings: Any) -> AsyncIterator[SandboxServiceStub]:
    config = RunConfig(sandbox=section.model_copy(update={"replay_share": 0.0, **settings}))
    address = f"unix:{folder}/s"
    async with (
        serve(config, run_dir=folder, address=address, endpoints=Endpoints()),
        open_channel(address) as channel,
    ):
        yield SandboxServiceStub(channel)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def patient(
    section: SandboxSection, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[SandboxServiceStub]:
    """A sandbox in which the other limits are met before the deadline is."""
    settings = {"call_seconds": 60.0, "worker_cpu_seconds": 1, "worker_processes": 4}
    async with served(section, tmp_path_factory.mktemp("patient"), **settings) as stub:
        yield stub


async def fault(stub: SandboxServiceStub, source: str, count: int = 1) -> sandbox_pb2.EpisodeFault:
    call = stub.Episode(timeout=120)
    await call.write(sandbox_pb2.EpisodeRequest(reset=sandbox_pb2.ResetRequest(source=source, seed=1)))
    assert (await call.read()).WhichOneof("response") == "reset"
    await call.write(sandbox_pb2.EpisodeRequest(step=sandbox_pb2.StepRequest(actions=["x"] * count)))
    answer = await call.read()
    assert answer.WhichOneof("response") == "fault", str(answer)[:500]
    return answer.fault


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("cpu", "while True: pass"),
        ("memory", "x = bytearray(1 << 33)"),
        ("processes", "for _ in range(64):\n    if os.fork() == 0: time.sleep(60)"),
        ("processes", "threading = __import__('threading')\nfor _ in range(500): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"),
        ("files", "kept = [open('/dev/null') for _ in range(1000)]"),
        ("disk", "with open('long', 'wb') as f:\n    for _ in range(64): f.write(bytes(1 << 20))"),
        ("observation", "return 'x' * 200_000, 0.0, False, False, {}"),
        ("info", "return 'x', 0.0, False, False, {'long': 'x' * 200_000}"),
        ("info", "info = {}\nfor _ in range(100): info = {'deeper': info}\nreturn 'x', 0.0, False, False, info"),
        ("info", "return 'x', 0.0, False, False, {str(n): n for n in range(20_000)}"),
        ("reward", "return 'x', 1.5, True, False, {}"),
        ("reward", "return 'x', float('nan'), True, False, {}"),
    ],
)  # fmt: skip
async def test_a_limit_is_named_and_counted(
    patient: SandboxServiceStub, level: Isolation, kind: str, body: str
) -> None:
    if kind == "processes" and level is not Isolation.GVISOR:
        pytest.skip("only gVisor promises this limit")
    labels = {"origin": "environment", "kind": kind}
    before = counted("spade_sandbox_faults_total", **labels)
    found = await fault(patient, program(body))
    assert (found.origin, found.kind) == (sandbox_pb2.FAULT_ORIGIN_ENVIRONMENT, kind), found.message
    assert counted("spade_sandbox_faults_total", **labels) == before + 1


async def test_who_is_killed_for_cpu_time_counts_as_killed(patient: SandboxServiceStub) -> None:
    before = counted("spade_sandbox_kills_total", reason="cpu")
    assert (await fault(patient, program("while True: pass"))).kind == "cpu"
    assert counted("spade_sandbox_kills_total", reason="cpu") == before + 1


async def test_the_output_of_one_call_is_limited(patient: SandboxServiceStub) -> None:
    before = counted("spade_sandbox_kills_total", reason="output")
    found = await fault(patient, program("return 'x' * 60_000, 0.0, False, False, {}"), count=4096)
    assert (found.origin, found.kind) == (sandbox_pb2.FAULT_ORIGIN_ENVIRONMENT, "output")
    assert "fewer actions" in found.message
    assert counted("spade_sandbox_kills_total", reason="output") == before + 1


async def test_the_memory_of_a_whole_sandbox_is_limited(patient: SandboxServiceStub, level: Isolation) -> None:
    if level is not Isolation.GVISOR:
        pytest.skip("only gVisor promises this limit")
    before = counted("spade_sandbox_kills_total", reason="sandbox_memory")
    # Each of the four processes stays below the limit of a worker.
    hoard = "for _ in range(3):\n    if os.fork() == 0: break\nkept = bytearray(b'x') * (150 << 20)\ntime.sleep(60)"
    found = await fault(patient, program(hoard))
    assert (found.origin, found.kind) == (sandbox_pb2.FAULT_ORIGIN_ENVIRONMENT, "memory")
    assert "together" in found.message
    assert counted("spade_sandbox_kills_total", reason="sandbox_memory") == before + 1


async def test_a_call_has_a_deadline(section: SandboxSection, tmp_path: Path) -> None:
    before = counted("spade_sandbox_kills_total", reason="deadline")
    async with served(section, tmp_path, call_seconds=1.0) as stub:
        found = await fault(stub, program("time.sleep(3600)"))
    assert (found.origin, found.kind) == (sandbox_pb2.FAULT_ORIGIN_ENVIRONMENT, "deadline")
    assert counted("spade_sandbox_kills_total", reason="deadline") == before + 1


async def test_an_episode_may_be_open_for_so_long(section: SandboxSection, tmp_path: Path) -> None:
    async with served(section, tmp_path, call_seconds=60.0, episode_seconds=1.0) as stub:
        found = await fault(stub, program("time.sleep(3600)"))
    assert (found.origin, found.kind) == (sandbox_pb2.FAULT_ORIGIN_SANDBOX, "episode_time")
