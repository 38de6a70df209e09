"""A whole run in one process: all services on one event loop, over Unix sockets.

It is the same code as on a cluster: only the addresses differ.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from spade_rl.config import Endpoints, RunConfig
from spade_rl.config_files import load_config
from spade_rl.manifest import CONFIG, locked, prepare_run_dir, read_manifest

Listener = Callable[[dict[str, Any]], None]


def train(config: RunConfig, *, run_dir: Path, listener: Listener | None = None) -> dict[str, Any]:
    """Begin a run in ``run_dir``, or go on with it if it was begun there; returns its summary.

    The first SIGINT or SIGTERM ends the run after its cycle, with a checkpoint; a second one ends it at once, and
    the cycle in progress is lost. Raises SpadeError.
    """
    run_id = prepare_run_dir(run_dir, config)
    # Sandboxes need the cores that idle threads of torch would burn while they wait. Read when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with locked(run_dir):
        return asyncio.run(_run(config, run_dir, run_id, listener))


def resume(run_dir: Path, *, listener: Listener | None = None) -> dict[str, Any]:
    """Go on with the run in ``run_dir`` from its newest checkpoint; returns its summary."""
    read_manifest(run_dir)
    return train(load_config(file=run_dir / CONFIG), run_dir=run_dir, listener=listener)


async def _run(config: RunConfig, run_dir: Path, run_id: str, listener: Listener | None) -> dict[str, Any]:
    # Imported here: the services bring torch, which the command line does without.
    from spade_rl.coordinator.clients import connected
    from spade_rl.coordinator.run import Run
    from spade_rl.coordinator.server import run_server

    async with (
        serve_all(config, run_dir=run_dir) as endpoints,
        connected(endpoints, config.run.stage_seconds) as services,
    ):
        run = Run(config, services, run_dir=run_dir, run_id=run_id, listener=listener)
        server = run_server(run, run_dir, str(endpoints.coordinator))
        await server.start()
        task = asyncio.ensure_future(run.execute())
        with _signals(run.stop, task.cancel):
            try:
                return await task
            finally:
                await server.stop()


@asynccontextmanager
async def serve_all(config: RunConfig, *, run_dir: Path) -> AsyncIterator[Endpoints]:
    """Serve everything that a coordinator needs, each service once those that it calls are up; yields their addresses."""
    from spade_rl.agent.server import serve as serve_agent
    from spade_rl.designer.server import serve as serve_designer
    from spade_rl.learner.server import serve as serve_learner
    from spade_rl.memory.server import serve as serve_memory
    from spade_rl.regret.server import serve as serve_regret
    from spade_rl.sandbox.server import serve as serve_sandbox

    # The path of a Unix socket has a short limit, so the sockets do not lie in the run's folder.
    with tempfile.TemporaryDirectory(prefix="spade-") as sockets:
        address = {name: f"unix:{sockets}/{name}" for name in Endpoints.model_fields}
        address["inference"] = address["agent"]
        endpoints = Endpoints(**address)
        async with AsyncExitStack() as stack:
            for name, serve in (
                ("memory", serve_memory),
                ("sandbox", serve_sandbox),
                ("learner", serve_learner),
                ("agent", serve_agent),
                ("regret", serve_regret),
                ("designer", serve_designer),
            ):
                await stack.enter_async_context(
                    serve(config, run_dir=run_dir, address=address[name], endpoints=endpoints)
                )
            yield endpoints


@contextmanager
def _signals(first: Callable[[], object], second: Callable[[], object]) -> Iterator[None]:
    """Call ``first`` at the first SIGINT or SIGTERM and ``second`` at every later one."""
    loop = asyncio.get_running_loop()
    calls = iter([first])
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, lambda: next(calls, second)())
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
