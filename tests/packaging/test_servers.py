"""Every service answers health checks and reflection, and refuses what the wire's rules forbid."""

from __future__ import annotations

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from spade_rl.config_files import load_config
from spade_rl.coordinator.clients import connected
from spade_rl.coordinator.run import Run
from spade_rl.coordinator.server import run_server
from spade_rl.local import serve_all
from spade_rl.rpc import open_channel
from spade_rl.v1 import memory_pb2, memory_pb2_grpc

SERVICES = {
    "agent": ["AgentService", "InferenceService"],
    "coordinator": ["CoordinatorService"],
    "designer": ["DesignerService"],
    "learner": ["LearnerService"],
    "memory": ["MemoryService"],
    "regret": ["RegretService"],
    "sandbox": ["SandboxService"],
}
SECONDS = 30


async def test_health_reflection_and_validation(tmp_path):
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    # No generated code runs here, so the level that works everywhere is enough.
    config = load_config(preset="quickstart", overrides=["sandbox={isolation: process, self_test: false}"])
    async with serve_all(config, run_dir=run_dir) as endpoints, connected(endpoints, SECONDS) as services:
        run = Run(config, services, run_dir=run_dir, run_id="run")
        coordinator = run_server(run, run_dir, str(endpoints.coordinator))
        await coordinator.start()
        try:
            for folder, names in SERVICES.items():
                async with open_channel(getattr(endpoints, folder)) as channel:
                    health = health_pb2_grpc.HealthStub(channel)
                    for name in ["", *(f"spade_rl.v1.{service}" for service in names)]:
                        answer = await health.Check(health_pb2.HealthCheckRequest(service=name), timeout=SECONDS)
                        assert answer.status == health_pb2.HealthCheckResponse.SERVING, (folder, name)
                    reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
                    request = reflection_pb2.ServerReflectionRequest(list_services="")
                    async for listed in reflection.ServerReflectionInfo(iter([request]), timeout=SECONDS):
                        shown = {service.name for service in listed.list_services_response.service}
                    assert {f"spade_rl.v1.{service}" for service in names} <= shown, folder
            async with open_channel(endpoints.memory) as channel:
                memory = memory_pb2_grpc.MemoryServiceStub(channel)
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await memory.ListNormalisedDigests(memory_pb2.ListNormalisedDigestsRequest(), timeout=SECONDS)
                assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
                assert "run_id" in refused.value.details()
        finally:
            await coordinator.stop()
