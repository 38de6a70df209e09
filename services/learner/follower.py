"""The processes of a DeepSpeed learner that do not answer calls: they do what the leading one says."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from spade_rl.config_files import load_config
from spade_rl.errors import ConfigurationError, SpadeError
from spade_rl.learner.deepspeed_engine import DeepSpeedEngine
from spade_rl.learner.ranks import join
from spade_rl.models import model_location
from spade_rl.telemetry import configure_logging

# Seconds from a signal to the end when the leader says nothing; torchrun kills after 30.
_GRACE = 20


@contextmanager
def answering_probes(address: str) -> Iterator[int]:
    """Answer health checks; yields the port. The first follower of a machine does.

    gRPC ends a server that nobody holds, so it lives as long as the block.
    """
    servicer = health.HealthServicer()
    server = grpc.server(ThreadPoolExecutor(1, thread_name_prefix="probes"))
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port(address)
    server.start()
    servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    try:
        yield port
    finally:
        server.stop(None)


def run_follower() -> int:
    """Take the service's command line, follow until the leader closes, return the exit status."""
    parser = argparse.ArgumentParser(description="One more process of Spade's learner service, started by torchrun.")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--preset")
    parser.add_argument("--health-address")
    parser.add_argument("--log-level", default="INFO")
    arguments, _ = parser.parse_known_args()
    configure_logging(arguments.log_level)
    # torchrun hands a signal to every process. The leader ends in order and closes this one; should it not, an alarm does.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: signal.alarm(_GRACE))
    first = os.environ.get("LOCAL_RANK", "0") == "0"
    try:
        with answering_probes(arguments.health_address) if arguments.health_address and first else nullcontext():
            config = load_config(preset=arguments.preset, file=arguments.config)
            if config.learner.engine != "deepspeed":
                raise ConfigurationError(
                    "learner.engine: torch is one process; start it without torchrun or set deepspeed"
                )
            DeepSpeedEngine(config, model_location(config.model.name), join(config.learner.collective_seconds)).follow()
    except SpadeError as error:
        print(f"{error.boundary}: {error}", file=sys.stderr)
        return error.exit_code
    return 0
