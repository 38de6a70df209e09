"""How a service becomes a process.

Every service module has one asynchronous context manager ``serve``. Entered, it listens on its address and answers;
left, it drains and frees all that it held. The local runner enters all of them in one process; ``python -m
spade_rl.SERVICE`` enters one, until SIGTERM or SIGINT. While it drains, health checks say NOT_SERVING, new calls are
refused with UNAVAILABLE, and running ones may end; a second signal ends them at once.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Protocol

from spade_rl.config import Endpoints, RunConfig
from spade_rl.config_files import load_config, presets
from spade_rl.errors import SpadeError
from spade_rl.rpc import Server, answering_probes
from spade_rl.telemetry import configure_logging, get_logger, serve_metrics
from spade_rl.tracing import traced


class Serve(Protocol):
    """A service's ``serve``: what it is told, where its files lie, where it listens, where the others are."""

    def __call__(
        self, config: RunConfig, *, run_dir: Path, address: str, endpoints: Endpoints
    ) -> AbstractAsyncContextManager[Server]:
        """Return the context in which the service answers."""
        ...


async def _until_signalled(serve: Serve, arguments: argparse.Namespace) -> None:
    config = load_config(preset=arguments.preset, file=arguments.config)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    this = asyncio.current_task()
    assert this is not None

    def signalled() -> None:
        if stopped.is_set():
            this.cancel()
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
    if arguments.metrics_port:
        serve_metrics(arguments.metrics_port)
    async with AsyncExitStack() as stack:
        serving = serve(config, run_dir=arguments.run_dir, address=arguments.address, endpoints=config.endpoints)
        server = await stack.enter_async_context(serving)
        if arguments.health_address:
            await stack.enter_async_context(answering_probes(server, arguments.health_address))
        get_logger(arguments.service).info("serving", address=server.address, port=server.port)
        await stopped.wait()


def run_service(name: str, serve: Serve) -> int:
    """Parse the command line of ``python -m spade_rl.NAME``, serve until a signal, return the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m spade_rl.{name}", description=f"Serve Spade's {name} service.")
    parser.add_argument("--config", type=Path, required=True, help="the run's configuration (YAML)")
    parser.add_argument("--preset", choices=sorted(presets()), help="what the configuration builds on")
    parser.add_argument("--run-dir", type=Path, required=True, help="where the run's files lie")
    parser.add_argument("--address", required=True, help="where to listen: host:port or unix:PATH")
    parser.add_argument("--health-address", help="where to answer health checks in plain as well, for probes")
    parser.add_argument("--metrics-port", type=int, default=0, help="port of /metrics; 0: none")
    parser.add_argument("--log-level", default="INFO")
    arguments = parser.parse_args()
    arguments.service = name
    configure_logging(arguments.log_level)
    try:
        with traced(name):
            asyncio.run(_until_signalled(serve, arguments))
    except SpadeError as error:
        print(f"{error.boundary}: {error}", file=sys.stderr)
        return error.exit_code
    except asyncio.CancelledError:
        return 1
    return 0
