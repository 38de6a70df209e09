"""The gRPC edge: validation, errors by boundary, health, reflection, ports."""

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from spade_rl.errors import (
    BY_BOUNDARY,
    CapacityError,
    ConfigurationError,
    DeadlineError,
    SpadeError,
)
from spade_rl.rpc import Server, calling, open_channel
from spade_rl.v1 import regret_pb2, regret_pb2_grpc

NAME = "spade_rl.v1.RegretService"
INPUT = regret_pb2.EnvironmentScoreInput(digest="a" * 64)


class Echo(regret_pb2_grpc.RegretServiceServicer):
    """Raises what it is told to."""

    def __init__(self):
        self.error: Exception | None = None

    async def Score(self, request, context):
        if self.error:
            raise self.error
        return regret_pb2.ScoreResponse(rewards=[1.0 for _ in request.inputs])

    async def Evaluate(self, request, context):
        yield regret_pb2.EvaluateResponse(digest="first")
        if self.error:
            raise self.error


@asynccontextmanager
async def served(tmp_path, echo):
    address = f"unix:{tmp_path}/s"
    server = Server(
        address=address,
        services=[NAME],
        register=lambda s: regret_pb2_grpc.add_RegretServiceServicer_to_server(echo, s),
    )
    await server.start()
    channel = open_channel(address)
    try:
        yield channel
    finally:
        await channel.close()
        await server.stop(0)


async def score(channel, **fields):
    request = regret_pb2.ScoreRequest(**{"inputs": [INPUT], "variant": "blend", **fields})
    async with calling("regret"):
        return await regret_pb2_grpc.RegretServiceStub(channel).Score(request, timeout=10)


@pytest.mark.parametrize("cls", BY_BOUNDARY.values())
async def test_an_error_arrives_as_what_it_was(tmp_path, cls):
    echo = Echo()
    echo.error = cls("mend it so")
    async with served(tmp_path, echo) as channel:
        with pytest.raises(cls, match="mend it so") as caught:
            await score(channel)
    assert type(caught.value) is cls


async def test_an_unexpected_error_names_service_and_method(tmp_path):
    echo = Echo()
    echo.error = KeyError("x")
    async with served(tmp_path, echo) as channel:
        with pytest.raises(SpadeError, match=r"RegretService failed in Score: KeyError"):
            await score(channel)


async def test_a_stream_fails_after_what_it_sent(tmp_path):
    echo = Echo()
    echo.error = CapacityError("full")
    got = []
    async with served(tmp_path, echo) as channel:
        request = regret_pb2.EvaluateRequest(run_id="r", plays=1, environments=[{"digest": "a" * 64, "source": "x"}])
        with pytest.raises(CapacityError):
            async with calling("regret"):
                async for response in regret_pb2_grpc.RegretServiceStub(channel).Evaluate(request, timeout=10):
                    got.append(response.digest)
    assert got == ["first"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"variant": "x"}, "variant"), ({"inputs": []}, "inputs"), ({"inputs": [{"digest": "A"}]}, "digest")],
)
async def test_what_arrives_is_checked(tmp_path, fields, named):
    async with served(tmp_path, Echo()) as channel:
        with pytest.raises(ConfigurationError, match=named):
            await score(channel, **fields)


async def test_a_service_that_is_down_is_named(tmp_path):
    channel = open_channel(f"unix:{tmp_path}/nobody")
    with pytest.raises(SpadeError, match="the regret service"):
        await score(channel)
    await channel.close()


async def test_a_call_has_a_deadline(tmp_path):
    class Slow(Echo):
        async def Score(self, request, context):

            await asyncio.sleep(30)

    async with served(tmp_path, Slow()) as channel:
        with pytest.raises(DeadlineError, match="did not answer in time"):
            async with calling("regret"):
                request = regret_pb2.ScoreRequest(inputs=[INPUT], variant="blend")
                await regret_pb2_grpc.RegretServiceStub(channel).Score(request, timeout=0.2)


async def test_health_and_reflection_answer(tmp_path):
    async with served(tmp_path, Echo()) as channel:
        check = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=NAME))
        assert check.status == health_pb2.HealthCheckResponse.SERVING
        calls = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        )
        async for answer in calls:
            assert NAME in {service.name for service in answer.list_services_response.service}
            break


async def test_a_port_in_use_is_the_users_to_mend():
    def register(_: grpc.aio.Server) -> None:
        pass

    first = Server(address="127.0.0.1:0", services=[], register=register)
    await first.start()
    second = Server(address=f"127.0.0.1:{first.port}", services=[], register=register)
    with pytest.raises(ConfigurationError, match="cannot listen"):
        await second.start()
    await first.stop(0)
