"""The run's demand for sandboxes as KEDA asks for it: an external push scaler.

``scalerMetadata`` says how it becomes a number of pods: ``workersPerPod`` is what one pod takes (by default
``sandbox.max_workers``), ``workersAtOnce`` what all agents together use at once (by default ``agent.concurrency``, that of
one), so that a long queue does not start pods that nobody could keep busy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing

import grpc

from spade_rl.coordinator.demand import Demand
from spade_rl.errors import ConfigurationError
from spade_rl.v1 import externalscaler_pb2 as pb
from spade_rl.v1 import externalscaler_pb2_grpc

# ruff: noqa: ARG002 - KEDA's protocol gives a servicer its arguments, needed or not.

SERVICE = pb.DESCRIPTOR.services_by_name["ExternalScaler"].full_name
METRIC = "spade-wanted-workers"


def _positive(metadata: Mapping[str, str], name: str, otherwise: int) -> int:
    text = metadata.get(name, str(otherwise))
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ConfigurationError(f"the trigger's metadata names {name}: {text!r}; it must be a whole number above 0")
    return int(text)


class ScalerServicer(externalscaler_pb2_grpc.ExternalScalerServicer):
    """Answers from one demand."""

    def __init__(self, demand: Demand, *, workers_per_pod: int, workers_at_once: int) -> None:
        self._demand = demand
        self._workers_per_pod = workers_per_pod
        self._workers_at_once = workers_at_once

    async def IsActive(self, request: pb.ScaledObjectRef, context: grpc.aio.ServicerContext) -> pb.IsActiveResponse:
        """Say whether a worker is wanted."""
        return pb.IsActiveResponse(result=self._demand.workers > 0)

    async def StreamIsActive(
        self, request: pb.ScaledObjectRef, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.IsActiveResponse]:
        """Say the same at once, and again whenever it changes."""
        said: bool | None = None
        async with aclosing(self._demand.watch()) as amounts:
            async for workers in amounts:
                if said is not (workers > 0):
                    said = workers > 0
                    yield pb.IsActiveResponse(result=said)

    async def GetMetricSpec(
        self, request: pb.ScaledObjectRef, context: grpc.aio.ServicerContext
    ) -> pb.GetMetricSpecResponse:
        """Say how many workers one pod takes."""
        target = _positive(request.scalerMetadata, "workersPerPod", self._workers_per_pod)
        spec = pb.MetricSpec(metricName=METRIC, targetSize=target, targetSizeFloat=target)
        return pb.GetMetricSpecResponse(metricSpecs=[spec])

    async def GetMetrics(
        self, request: pb.GetMetricsRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetMetricsResponse:
        """Say how many are wanted."""
        if request.metricName != METRIC:
            raise ConfigurationError(f"there is no metric {request.metricName!r}; there is {METRIC}")
        at_once = _positive(request.scaledObjectRef.scalerMetadata, "workersAtOnce", self._workers_at_once)
        workers = min(self._demand.workers, at_once)
        value = pb.MetricValue(metricName=METRIC, metricValue=workers, metricValueFloat=workers)
        return pb.GetMetricsResponse(metricValues=[value])
