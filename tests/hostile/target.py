"""The service that the cases are tried against, chosen by the environment's variables.

- ``SPADE_TEST_SANDBOX``: the gRPC address of a service that runs already (a pod, say). Else one is started here, with
- ``SPADE_TEST_ISOLATION``: ``gvisor`` (default), ``bubblewrap`` or ``process``, and
- ``SPADE_TEST_PLATFORM``: ``auto`` (default), ``systrap`` or ``ptrace``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from case import Case

from spade_rl.config import Endpoints, RunConfig, SandboxSection
from spade_rl.rpc import open_channel
from spade_rl.sandbox.server import serve
from spade_rl.v1.sandbox_pb2_grpc import SandboxServiceStub

ADDRESS = os.environ.get("SPADE_TEST_SANDBOX", "")
ISOLATION = os.environ.get("SPADE_TEST_ISOLATION", "gvisor")
PLATFORM = os.environ.get("SPADE_TEST_PLATFORM", "auto")


def section(**changes: float) -> SandboxSection:
    """Return limits that are exceeded quickly, on a machine that may be busy."""
    return SandboxSection.model_validate(
        {
            "isolation": ISOLATION,
            "platform": PLATFORM,
            "call_seconds": 1.5,
            "worker_memory_mb": 256,
            "sandbox_memory_mb": 384,
            "max_sandboxes": 12,
            "max_workers": 32,
            "queue_seconds": 120.0,
            **changes,
        }
    )


def left_out(case: Case) -> str:
    """Say why a case is not tried against this service; "" if it is."""
    if case.strong and ISOLATION != "gvisor":
        return "this isolation does not contain it"
    return "an image shows more than a service's own files" if case.own and ADDRESS else ""


@asynccontextmanager
async def opened(**changes: float) -> AsyncIterator[SandboxServiceStub]:
    """Give the service under test, started with ``changes`` to its section; what was started here ends with the block."""
    if ADDRESS:
        async with open_channel(ADDRESS) as channel:
            yield SandboxServiceStub(channel)
        return
    with tempfile.TemporaryDirectory(prefix="spade-test-") as folder:
        address = f"unix:{folder}/s"
        config = RunConfig(sandbox=section(**changes))
        async with (
            serve(config, run_dir=Path(folder), address=address, endpoints=Endpoints()),
            open_channel(address) as channel,
        ):
            yield SandboxServiceStub(channel)
