"""The sandbox as a command uses it: served for as long as the command needs it, over a Unix socket of its own."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spade_rl.config import Endpoints, Isolation, RunConfig
from spade_rl.config_files import load_config

if TYPE_CHECKING:
    from spade_rl.agent.sandbox_client import SandboxClient
    from spade_rl.v1 import environment_pb2
    from spade_rl.v1.sandbox_pb2_grpc import SandboxServiceStub

# Beyond the sandbox's own deadlines: for a sandbox that does not answer at all.
GRACE_SECONDS = 60.0

IsolationOption = Annotated[
    Isolation | None, typer.Option("--isolation", help="How the code is kept apart; anything but gvisor is weaker.")
]


def sandbox_config(isolation: Isolation | None, base: RunConfig | None = None) -> RunConfig:
    """Return a configuration whose sandbox isolates as asked for, else as ``base`` (by default gVisor) says.

    A command serves itself alone and for seconds, so it does not try the limits; ``spade doctor`` does.
    """
    base = base or load_config()
    changes = {"self_test": False, **({} if isolation is None else {"isolation": isolation})}
    return base.model_copy(update={"sandbox": base.sandbox.model_copy(update=changes)})


class Sandbox:
    """A served sandbox."""

    def __init__(self, config: RunConfig, address: str) -> None:
        from spade_rl.agent.sandbox_client import SandboxClient
        from spade_rl.elastic import ElasticChannel

        section = config.sandbox
        self._channel = ElasticChannel(
            address,
            service="sandbox",
            reachable_seconds=section.reachable_seconds,
            call_seconds=section.episode_seconds + GRACE_SECONDS,
        )
        self._admission_seconds = section.admission_seconds + section.queue_seconds + GRACE_SECONDS
        self.episodes: SandboxClient = SandboxClient(
            self._channel,
            reset_seconds=section.queue_seconds + GRACE_SECONDS,
            step_seconds=section.call_seconds + GRACE_SECONDS,
        )

    async def admit(self, source: str, seed: int, known: Sequence[str] = ()) -> environment_pb2.AdmissionReport:
        """Pass a source of either kind through the admission gates."""
        from spade_rl.rpc import calling
        from spade_rl.v1 import sandbox_pb2

        request = sandbox_pb2.AdmitRequest(source=source, seed=seed, known_normalised_digests=known)
        async with calling("sandbox"):
            return (await (await self._stub()).Admit(request, timeout=self._admission_seconds)).report

    async def isolation(self) -> str:
        """Return the level at which the sandbox really isolates."""
        from spade_rl.rpc import calling
        from spade_rl.v1 import environment_pb2, sandbox_pb2

        async with calling("sandbox"):
            status = await (await self._stub()).GetStatus(sandbox_pb2.GetStatusRequest(), timeout=GRACE_SECONDS)
        return environment_pb2.IsolationLevel.Name(status.isolation).removeprefix("ISOLATION_LEVEL_").lower()

    async def _stub(self) -> SandboxServiceStub:
        from spade_rl.v1 import sandbox_pb2_grpc

        return sandbox_pb2_grpc.SandboxServiceStub(await self._channel.ready())

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()


@asynccontextmanager
async def served(config: RunConfig) -> AsyncIterator[Sandbox]:
    """Serve the sandbox while the block runs; raises ConfigurationError if the isolation asked for is not there."""
    from spade_rl.sandbox.server import serve

    with tempfile.TemporaryDirectory(prefix="spade-") as folder:
        address = f"unix:{folder}/sandbox"
        endpoints = Endpoints(sandbox=address)
        async with serve(config, run_dir=Path(folder), address=address, endpoints=endpoints):
            sandbox = Sandbox(config, address)
            try:
                yield sandbox
            finally:
                await sandbox.close()


async def admit_all(config: RunConfig, sources: Sequence[str], seed: int) -> list[environment_pb2.AdmissionReport]:
    """Pass every source through the gates, several at once; reports come in the order of the sources."""
    room = asyncio.Semaphore(config.sandbox.max_sandboxes)

    async def one(sandbox: Sandbox, source: str) -> environment_pb2.AdmissionReport:
        async with room:
            return await sandbox.admit(source, seed)

    async with served(config) as sandbox:
        return list(await asyncio.gather(*(one(sandbox, source) for source in sources)))
