"""A whole run of what the chart renders, as processes with mutual TLS over loopback; services die in the middle of it."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from documents import SERVICES, values_of
from processes import Release, released

from spade_rl.config import TlsSection
from spade_rl.coordinator.events import read_events
from spade_rl.memory.archive import Archive
from spade_rl.rpc import open_channel
from spade_rl.v1 import coordinator_pb2, coordinator_pb2_grpc

CYCLES = 16
SMALL = {
    "designer": {"environments": 5},
    "regret": {"plays": 4},
    "run": {"cycles": CYCLES, "minutes": None},
    "evaluation": {"suite": "none"},
    # There is no pod here: the service starts gVisor itself.
    "sandbox": {"runtime": "runsc"},
    "learner": {"steps": 1, "epochs": 1},
}
RUN_SECONDS = 400

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def can_mount() -> bool:
    return (
        subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/srv"], capture_output=True).returncode
        == 0
    )


async def call(release: Release, secret: str | None):
    tls = TlsSection(mode="mutual", folder=str(release.folder / "secret" / secret)) if secret else TlsSection()
    target = "localhost:7007" if secret else "127.0.0.1:7007"
    async with open_channel(target, tls) as channel:
        stub = coordinator_pb2_grpc.CoordinatorServiceStub(channel)
        return await stub.GetRun(coordinator_pb2.GetRunRequest(), timeout=20)


def events(release: Release) -> list[dict]:
    (claim,) = (release.folder / "claim").iterdir()
    log = claim / "spade" / "runs" / "spade" / "events.jsonl"
    return read_events(log) if log.exists() else []


def wait_for(release: Release, what: str, found, *, restart: bool = False) -> None:
    deadline = time.monotonic() + RUN_SECONDS
    while not found(events(release)):
        assert time.monotonic() < deadline, f"{what} did not come: {release.log('coordinator')[-3000:]}"
        for service in SERVICES:
            if not release.running(service):
                assert restart, f"{service} ended: {release.log(service)[-3000:]}"
                release.start(service)
        time.sleep(0.2)


@pytest.mark.skipif(not can_mount(), reason="mount namespaces are not allowed here")
def test_the_rendered_release_runs_to_its_end_whatever_dies(render, tmp_path: Path):
    values = values_of("cpu")
    documents = render({**values, "config": SMALL})
    with released(documents, tmp_path) as release:
        wait_for(release, "the first cycle", lambda found: any(e["event"] == "cycle" for e in found))
        assert asyncio.run(call(release, "spade-client-tls")).state == coordinator_pb2.RUN_STATE_RUNNING
        for secret in (None, "spade-memory-tls"):
            # Without a certificate, and with one that proves a server only.
            with pytest.raises(Exception, match=r"UNAVAILABLE|DEADLINE_EXCEEDED"):
                asyncio.run(call(release, secret))
        for service in ("agent", "learner", "memory", "sandbox", "coordinator"):
            release.kill(service)
            release.start(service)
            time.sleep(0.5)
        wait_for(release, "the end", lambda found: any(e["event"] == "run_finished" for e in found), restart=True)
        assert asyncio.run(call(release, "spade-client-tls")).state == coordinator_pb2.RUN_STATE_FINISHED
    (claim,) = (tmp_path / "claim").iterdir()
    cycles = [e["cycle"] for e in events(release) if e["event"] == "cycle"]
    assert cycles == list(range(CYCLES))
    with Archive.open(claim / "spade", read_only=True) as archive:
        trajectories = [t.header.id for page in archive.trajectories("spade") for t in page]
        environments = [e.environment.digest for e in archive.environments("spade")]
    played = [e for e in events(release) if e["event"] == "cycle"]
    assert len(trajectories) == sum(e["episodes"] for e in played)
    assert len(environments) == sum(e["admitted"] for e in played)
    assert max(Counter(trajectories).values()) == 1
