"""OpenTelemetry traces of every call, off unless an endpoint is named.

``OTEL_EXPORTER_OTLP_ENDPOINT`` (or ``OTEL_EXPORTER_OTLP_TRACES_ENDPOINT``) turns them on, as in every program that speaks
OpenTelemetry; its other variables (sampling, headers, resource attributes) are honoured too. Spans begin at the coordinator
and go through the calls that a cycle makes; health checks make none. Needs the extra ``tracing``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from spade_rl.errors import ConfigurationError

SWITCHES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def wanted() -> bool:
    """Return whether traces are on."""
    return any(os.environ.get(name) for name in SWITCHES)


@contextmanager
def traced(service: str) -> Iterator[None]:
    """Around a service's life: make spans of its calls and send them; what is left is sent at the end.

    Has to be entered before a channel or server is made. Does nothing while traces are off.
    """
    if not wanted():
        yield
        return
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.instrumentation.grpc import GrpcAioInstrumentorClient, GrpcAioInstrumentorServer, filters
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigurationError(
            f"traces are wanted ({' or '.join(SWITCHES)} is set), but {error.name} is not installed: "
            "pip install 'spade-rl[tracing]', or unset the variable"
        ) from error
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: f"spade-{service}"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    instrumentors = [
        kind(filter_=filters.negate(filters.health_check()))
        for kind in (GrpcAioInstrumentorServer, GrpcAioInstrumentorClient)
    ]
    for instrumentor in instrumentors:
        instrumentor.instrument(tracer_provider=provider)
    try:
        yield
    finally:
        for instrumentor in instrumentors:
            instrumentor.uninstrument()
        provider.shutdown()


@contextmanager
def span(name: str, **attributes: str | int) -> Iterator[None]:
    """Around work that calls others: their spans are parts of this one. Does nothing while traces are off."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or not wanted():
        yield
        return
    with trace.get_tracer(__name__).start_as_current_span(name, attributes=attributes):
        yield
