"""Structured logs and Prometheus metrics, the same for every service.

Metric names begin with ``spade_``; labels come from small fixed sets (a service, a method, a gate, a status), never
from digests or identifiers. Logs are JSON lines on standard error unless a terminal reads them; each says which run, cycle
and environment it is about, as far as its task knows (``identify``), and which trace it belongs to, where traces are on.
Secrets are blotted out before a line is written.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog
from prometheus_client import Counter, Gauge, Histogram, start_http_server

from spade_rl.redaction import redact_event

RPC_SECONDS = Histogram(
    "spade_rpc_seconds",
    "Duration of calls served, by method and status.",
    ["service", "method", "status"],
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000),
)
GPUS = Gauge("spade_gpus", "GPUs that a service holds, those of all its processes together.")
ERRORS = Counter("spade_errors_total", "Failures by the boundary at which they happened.", ["boundary"])


def configure_logging(level: str = "INFO") -> None:
    """Send structured logs of ``level`` and above to standard error, wherever that goes when a line is written."""
    readable = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _add_trace,
            redact_event,
            structlog.dev.ConsoleRenderer() if readable else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )


def identify(**identifiers: str | int) -> None:
    """Put identifiers into every further line of this task and of those that it starts: run_id, cycle, environment."""
    structlog.contextvars.bind_contextvars(**identifiers)


def _add_trace(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Name the trace and span, if the process makes any."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is not None:
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            event.update(trace_id=f"{context.trace_id:032x}", span_id=f"{context.span_id:016x}")
    return event


def get_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """Return the logger of a module."""
    return structlog.get_logger(component=name)


def serve_metrics(port: int) -> None:
    """Serve ``/metrics`` of this process on all interfaces."""
    start_http_server(port)
