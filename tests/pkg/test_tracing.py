"""Traces: off and not even imported by default; on, a real collector gets the spans of calls, and logs name their trace."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
import structlog
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from spade_rl.errors import ConfigurationError
from spade_rl.rpc import Server, open_channel
from spade_rl.telemetry import configure_logging, get_logger, identify
from spade_rl.tracing import span, traced
from spade_rl.v1 import regret_pb2, regret_pb2_grpc

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
INPUT = regret_pb2.EnvironmentScoreInput(digest="a" * 64)


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps every span with its service's name."""

    def __init__(self):
        self.spans = []

    def Export(self, request, context):
        for resource in request.resource_spans:
            names = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [(names["service.name"], one) for one in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()


@pytest.fixture
def collector(monkeypatch):
    server = grpc.server(ThreadPoolExecutor(2))
    kept = Collector()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(kept, server)
    monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    server.start()
    yield kept
    server.stop(0)


@pytest.fixture(autouse=True)
def _restored():
    yield
    structlog.contextvars.clear_contextvars()
    structlog.reset_defaults()


class Regret(regret_pb2_grpc.RegretServiceServicer):
    """Logs what it is asked."""

    async def Score(self, request, context):
        identify(run_id="r", cycle=3)
        get_logger("regret").info("scored")
        return regret_pb2.ScoreResponse(rewards=[1.0])

    async def Evaluate(self, request, context):
        for environment in request.environments:
            yield regret_pb2.EvaluateResponse(digest=environment.digest)


async def test_calls_of_a_cycle_are_one_trace_and_logs_name_it(collector, monkeypatch, tmp_path):
    lines = io.StringIO()
    monkeypatch.setattr("sys.stderr", lines)
    configure_logging()
    with traced("regret"):
        server = Server(
            address=f"unix:{tmp_path}/s",
            services=[],
            register=lambda s: regret_pb2_grpc.add_RegretServiceServicer_to_server(Regret(), s),
        )
        await server.start()
        async with open_channel(server.address) as channel:
            stub = regret_pb2_grpc.RegretServiceStub(channel)
            with span("cycle", cycle=3):
                await stub.Score(regret_pb2.ScoreRequest(inputs=[INPUT], variant="blend"), timeout=10)
                asked = regret_pb2.EvaluateRequest(
                    run_id="r", plays=1, environments=[{"digest": "a" * 64, "source": "x"}]
                )
                assert [one.digest async for one in stub.Evaluate(asked, timeout=10)] == ["a" * 64]
        await server.stop(0)
    assert {service for service, _ in collector.spans} == {"spade-regret"}
    spans = [one for _, one in collector.spans]
    (root,) = (one for one in spans if one.name == "cycle")
    assert {one.trace_id for one in spans} == {root.trace_id}
    for method in ("Score", "Evaluate"):
        (client,) = (one for one in spans if one.name.endswith(method) and one.kind == one.SPAN_KIND_CLIENT)
        (served,) = (one for one in spans if one.name.endswith(method) and one.kind == one.SPAN_KIND_SERVER)
        assert client.parent_span_id == root.span_id
        assert served.parent_span_id == client.span_id
    (line,) = (json.loads(one) for one in lines.getvalue().splitlines() if "scored" in one)
    assert line["trace_id"] == root.trace_id.hex()
    assert (line["run_id"], line["cycle"]) == ("r", 3)


def test_traces_that_are_off_cost_nothing():
    code = (
        "import sys; import spade_rl.serving; from spade_rl.tracing import span, traced\n"
        "with traced('x'), span('y'): pass\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    done = subprocess.run([sys.executable, "-c", code], env={}, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_traces_without_their_packages_are_refused(monkeypatch):
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.instrumentation.grpc", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'spade-rl\[tracing\]'"), traced("regret"):
        pass
