"""The scaler over real gRPC, as KEDA calls it: both ways of asking, the metric, and what is wrong with a trigger."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest

from spade_rl.coordinator.demand import Demand
from spade_rl.coordinator.scaler import METRIC, SERVICE, ScalerServicer
from spade_rl.rpc import Server, open_channel
from spade_rl.v1 import externalscaler_pb2 as pb
from spade_rl.v1 import externalscaler_pb2_grpc

SECONDS = 10


@asynccontextmanager
async def scaler(demand, workers_per_pod=64, workers_at_once=1000):
    servicer = ScalerServicer(demand, workers_per_pod=workers_per_pod, workers_at_once=workers_at_once)
    server = Server(
        address="127.0.0.1:0",
        services=[SERVICE],
        register=lambda s: externalscaler_pb2_grpc.add_ExternalScalerServicer_to_server(servicer, s),
    )
    await server.start()
    async with open_channel(f"127.0.0.1:{server.port}") as channel:
        try:
            yield externalscaler_pb2_grpc.ExternalScalerStub(channel)
        finally:
            demand.close()
            await server.stop(5)


def reference(**metadata):
    return pb.ScaledObjectRef(name="spade-sandbox", namespace="train", scalerMetadata=metadata)


async def value(stub, **metadata):
    request = pb.GetMetricsRequest(scaledObjectRef=reference(**metadata), metricName=METRIC)
    response = await stub.GetMetrics(request, timeout=SECONDS)
    (metric,) = response.metricValues
    assert metric.metricName == METRIC
    assert metric.metricValue == metric.metricValueFloat
    return metric.metricValue


def test_the_wire_is_kedas_own():
    """The names and numbers that KEDA's client uses, written down once more."""
    service = pb.DESCRIPTOR.services_by_name["ExternalScaler"]
    assert service.full_name == "externalscaler.ExternalScaler"
    assert {m.name: (m.input_type.name, m.output_type.name, m.server_streaming) for m in service.methods} == {
        "IsActive": ("ScaledObjectRef", "IsActiveResponse", False),
        "StreamIsActive": ("ScaledObjectRef", "IsActiveResponse", True),
        "GetMetricSpec": ("ScaledObjectRef", "GetMetricSpecResponse", False),
        "GetMetrics": ("GetMetricsRequest", "GetMetricsResponse", False),
    }
    fields = {m.name: {f.name: f.number for f in m.fields} for m in pb.DESCRIPTOR.message_types_by_name.values()}
    assert fields == {
        "ScaledObjectRef": {"name": 1, "namespace": 2, "scalerMetadata": 3},
        "IsActiveResponse": {"result": 1},
        "GetMetricSpecResponse": {"metricSpecs": 1},
        "MetricSpec": {"metricName": 1, "targetSize": 2, "targetSizeFloat": 3},
        "GetMetricsRequest": {"scaledObjectRef": 1, "metricName": 2},
        "GetMetricsResponse": {"metricValues": 1},
        "MetricValue": {"metricName": 1, "metricValue": 2, "metricValueFloat": 3},
    }


async def test_a_stream_answers_at_once_and_pushes_what_changes():
    demand = Demand()
    async with scaler(demand) as stub, asyncio.timeout(SECONDS):
        stream = stub.StreamIsActive(reference())
        assert (await stream.read()).result is False
        with demand.of(5) as want:
            assert (await stream.read()).result is True
            assert (await stub.IsActive(reference(), timeout=SECONDS)).result is True
            # Still active: nothing to push.
            want.done(4)
            assert await value(stub) == 1
        assert (await stream.read()).result is False
        assert (await stub.IsActive(reference(), timeout=SECONDS)).result is False


async def test_a_stream_that_opens_during_demand_says_so_at_once():
    demand = Demand()
    async with scaler(demand) as stub, asyncio.timeout(SECONDS):
        with demand.of(1):
            assert (await stub.StreamIsActive(reference()).read()).result is True


async def test_the_end_of_the_service_ends_streams_without_an_error():
    """KEDA asks again at once after an ordinary end, and ever later after errors."""
    demand = Demand()
    async with scaler(demand) as stub, asyncio.timeout(SECONDS):
        stream = stub.StreamIsActive(reference())
        await stream.read()
        demand.close()
        assert await stream.read() is grpc.aio.EOF
        assert await stream.code() is grpc.StatusCode.OK


async def test_the_metric_is_the_demand_within_what_can_be_used_at_once():
    demand = Demand()
    async with scaler(demand, workers_at_once=512) as stub:
        assert await value(stub) == 0
        with demand.of(300):
            assert await value(stub) == 300
        with demand.of(700):
            assert await value(stub) == 512
            assert await value(stub, workersAtOnce="128") == 128
        assert await value(stub, workersAtOnce="128") == 0


async def test_the_target_is_the_configured_one_unless_the_trigger_says_otherwise():
    async with scaler(Demand(), workers_per_pod=256) as stub:
        for metadata, target in (({}, 256), ({"workersPerPod": "32"}, 32)):
            (spec,) = (await stub.GetMetricSpec(reference(**metadata), timeout=SECONDS)).metricSpecs
            assert (spec.metricName, spec.targetSize, spec.targetSizeFloat) == (METRIC, target, target)


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", ""])
async def test_a_trigger_that_says_nonsense_is_told(text):
    async with scaler(Demand()) as stub:
        with pytest.raises(grpc.aio.AioRpcError, match="workersPerPod") as refused:
            await stub.GetMetricSpec(reference(workersPerPod=text), timeout=SECONDS)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_another_metric_is_refused():
    async with scaler(Demand()) as stub:
        with pytest.raises(grpc.aio.AioRpcError, match="there is no metric 'other'"):
            request = pb.GetMetricsRequest(scaledObjectRef=reference(), metricName="other")
            await stub.GetMetrics(request, timeout=SECONDS)
