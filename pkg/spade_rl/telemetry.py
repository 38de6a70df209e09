"""Structured logs and Prometheus metrics, the same for every service.

Metric names begin with ``spade_``; labels come from small fixed sets (a service, a method, a gate, a status), never
from digests or identifiers. Logs are JSON lines on standard error unless a terminal reads them.
"""

from __future__ import annotations

import logging
import sys

import structlog
from prometheus_client import Counter, Gauge, Histogram, start_http_server

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
            structlog.dev.ConsoleRenderer() if readable else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )


def get_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """Return the logger of a module."""
    return structlog.get_logger(component=name)


def serve_metrics(port: int) -> None:
    """Serve ``/metrics`` of this process on all interfaces."""
    start_http_server(port)
