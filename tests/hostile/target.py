"""The service that the cases are tried against, chosen by the environment's variables.

- ``SPADE_TEST_SANDBOX``: the gRPC address of a service that runs already (a pod, say). Where it wants certificates,
  ``SPADE_TEST_TLS`` is a folder with ``tls.crt``, ``tls.key`` and ``ca.crt``, and ``SPADE_TEST_SERVER_NAME`` the name that
  the service's certificate proves, if that is not the address's. Else one is started here, with
- ``SPADE_TEST_ISOLATION``: ``gvisor`` (default), ``bubblewrap`` or ``process``, and
- ``SPADE_TEST_PLATFORM``: ``auto`` (default), ``systrap`` or ``ptrace``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from case import Case

from spade_rl.cluster.certificates import from_folder
from spade_rl.cluster.coordinator import open_channel
from spade_rl.config import Endpoints, RunConfig, SandboxSection
from spade_rl.config_files import load_config
from spade_rl.sandbox.server import serve
from spade_rl.v1 import sandbox_pb2
from spade_rl.v1.sandbox_pb2_grpc import SandboxServiceStub

ADDRESS = os.environ.get("SPADE_TEST_SANDBOX", "")
TLS = os.environ.get("SPADE_TEST_TLS", "")
SERVER_NAME = os.environ.get("SPADE_TEST_SERVER_NAME")
ISOLATION = os.environ.get("SPADE_TEST_ISOLATION", "gvisor")
PLATFORM = os.environ.get("SPADE_TEST_PLATFORM", "auto")
START_SECONDS = 120.0
SERVICE = Path(__file__).with_name("service.yaml")


def section(**changes: float) -> SandboxSection:
    """Return the section of ``service.yaml`` with the variables' choices and ``changes``."""
    chosen = load_config(file=SERVICE).sandbox.model_dump() | {"isolation": ISOLATION, "platform": PLATFORM}
    return SandboxSection.model_validate(chosen | changes)


def left_out(case: Case) -> str:
    """Say why a case is not tried against this service; "" if it is."""
    if case.strong and ISOLATION != "gvisor":
        return "this isolation does not contain it"
    return "an image shows more than a service's own files" if case.own and ADDRESS else ""


@asynccontextmanager
async def opened(**changes: float) -> AsyncIterator[SandboxServiceStub]:
    """Give the service under test, started with ``changes`` to its section; what was started here ends with the block."""
    if ADDRESS:
        certificate = replace(from_folder(Path(TLS)), server_name=SERVER_NAME) if TLS else None
        async with open_channel(ADDRESS, certificate) as channel:
            stub = SandboxServiceStub(channel)
            # It may only just have been started.
            await stub.GetStatus(sandbox_pb2.GetStatusRequest(), timeout=START_SECONDS, wait_for_ready=True)
            yield stub
        return
    with tempfile.TemporaryDirectory(prefix="spade-test-") as folder:
        address = f"unix:{folder}/s"
        config = RunConfig(sandbox=section(**changes))
        async with (
            serve(config, run_dir=Path(folder), address=address, endpoints=Endpoints()),
            open_channel(address, None) as channel,
        ):
            yield SandboxServiceStub(channel)
