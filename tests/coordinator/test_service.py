"""The coordinator over real gRPC, with the real services in this process: runs are taken, told of, ended, handed out."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from spade_rl.config import RunConfig
from spade_rl.config_files import dump_config, load_config
from spade_rl.coordinator.server import serve
from spade_rl.errors import CapacityError, ConfigurationError
from spade_rl.local import serve_all
from spade_rl.memory.archive import Archive
from spade_rl.report.events import RunState, read_log
from spade_rl.rpc import calling, open_channel
from spade_rl.v1 import coordinator_pb2 as pb
from spade_rl.v1.coordinator_pb2_grpc import CoordinatorServiceStub

pytestmark = pytest.mark.timeout(280)
SECONDS = 120
NUMBERS = itertools.count()
SMALL = (
    # No isolation is under test here, so the level that works everywhere is enough.
    "sandbox.isolation=process",
    "designer.environments=5",
    "regret.plays=1",
    "run.cycles=2",
    "run.minutes=null",
    "run.start=false",
    "evaluation.suite=none",
    "learner.steps=1",
    "learner.epochs=1",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a release keeps its files."""
    made = tmp_path / "release"
    made.mkdir()
    return made


def small(*overrides: str) -> RunConfig:
    return load_config(preset="quickstart", overrides=[*SMALL, *overrides])


@asynccontextmanager
async def coordinator(config: RunConfig, folder: Path, endpoints) -> AsyncIterator[CoordinatorServiceStub]:
    # A socket of its own: gRPC removes a server's some time after the server has stopped.
    address = f"{endpoints.coordinator}-{next(NUMBERS)}"
    async with (
        serve(config, run_dir=folder, address=address, endpoints=endpoints),
        open_channel(address) as channel,
    ):
        yield CoordinatorServiceStub(channel)


async def state(stub, run_id: str = "") -> pb.GetRunResponse:
    async with calling("coordinator"):
        return await stub.GetRun(pb.GetRunRequest(run_id=run_id), timeout=SECONDS)


async def start(stub, run_id: str, config: RunConfig) -> pb.StartRunResponse:
    async with calling("coordinator"):
        return await stub.StartRun(pb.StartRunRequest(run_id=run_id, config=dump_config(config)), timeout=SECONDS)


async def watched(stub, run_id: str, first: int = 0) -> list[tuple[int, dict]]:
    """Return a run's events to its end."""
    async with calling("coordinator"):
        request = pb.WatchRunRequest(run_id=run_id, first_event=first)
        return [(one.number, json.loads(one.event_json)) async for one in stub.WatchRun(request, timeout=SECONDS)]


async def until(stub, run_id: str, event: str) -> None:
    async with calling("coordinator"):
        async for one in stub.WatchRun(pb.WatchRunRequest(run_id=run_id), timeout=SECONDS):
            if json.loads(one.event_json)["event"] == event:
                return
    raise AssertionError(f"the run ended without {event}")


async def fetched(stub, run_id: str, folder: Path, **options) -> pb.ListArtifactsResponse:
    """Copy a run's files, and check each against its digest."""
    async with calling("coordinator"):
        listed = await stub.ListArtifacts(pb.ListArtifactsRequest(run_id=run_id, **options), timeout=SECONDS)
        for one in listed.artifacts:
            request = pb.FetchArtifactRequest(run_id=listed.run_id, path=one.path, sha256=one.sha256)
            data = b"".join([part.data async for part in stub.FetchArtifact(request, timeout=SECONDS)])
            assert len(data) == one.size
            assert hashlib.sha256(data).hexdigest() == one.sha256
            (folder / one.path).parent.mkdir(parents=True, exist_ok=True)
            (folder / one.path).write_bytes(data)
    return listed


async def test_a_run_is_submitted_stopped_resumed_and_copied(tmp_path: Path, folder: Path) -> None:
    own = small()
    async with serve_all(own, run_dir=folder) as endpoints, coordinator(own, folder, endpoints) as stub:
        with pytest.raises(ConfigurationError, match="no run yet"):
            await state(stub)
        assert (await start(stub, "first", small("run.cycles=4"))).run_id == "first"
        assert (await state(stub)).state == pb.RUN_STATE_RUNNING
        # The same request again, and another run meanwhile.
        assert (await start(stub, "first", small("run.cycles=4"))).state == pb.RUN_STATE_RUNNING
        with pytest.raises(ConfigurationError, match="another configuration"):
            await start(stub, "first", small("run.cycles=5"))
        with pytest.raises(CapacityError, match="first is running"):
            await start(stub, "second", own)

        await until(stub, "first", "cycle")
        partial = await fetched(stub, "first", tmp_path / "early")
        assert partial.state in (pb.RUN_STATE_RUNNING, pb.RUN_STATE_STOPPING)
        await stub.StopRun(pb.StopRunRequest(), timeout=SECONDS)
        events = await watched(stub, "first")
        assert [number for number, _ in events] == list(range(len(events)))
        assert events[-1][1]["event"] == "run_stopped"
        stopped = await state(stub, "first")
        assert (stopped.state, stopped.cycles, stopped.isolation) == (pb.RUN_STATE_STOPPED, 4, "process")
        assert 1 <= stopped.cycle < 4

        resumed = await stub.ResumeRun(pb.ResumeRunRequest(run_id="first"), timeout=SECONDS)
        assert resumed.state == pb.RUN_STATE_RUNNING
        # What the checkpoint does not know of is gone, and the numbers go on from there.
        rest = await watched(stub, "first", len(events) - 2)
        assert rest[0][1]["event"] == "resumed"
        assert rest[-1][1]["event"] == "run_finished"
        done = await state(stub, "first")
        assert (done.state, done.cycle) == (pb.RUN_STATE_FINISHED, 4)

        home = tmp_path / "home" / "first"
        listed = await fetched(stub, "first", home, weights=True)
        check_copy(home, "first", cycles=4)
        assert listed.artifacts[-1].path == "manifest.json"
        assert (home / "weights" / f"{done.policy_version:06d}" / "model.safetensors").exists()
        again = await stub.ListArtifacts(pb.ListArtifactsRequest(run_id="first", weights=True), timeout=SECONDS)
        assert again == listed
        await refuses_stale_files(stub, listed)

        # The learner went on, yet the next run begins where the first one did.
        await start(stub, "second", own)
        second = await watched(stub, "second")
        assert second[0][1]["event"] == "run_started"
        assert second[0][1]["policy_version"] == 0
        assert second[-1][1]["event"] == "run_finished"
        runs = await stub.ListRuns(pb.ListRunsRequest(), timeout=SECONDS)
        assert [(one.run_id, one.state) for one in runs.runs] == [
            ("first", pb.RUN_STATE_FINISHED),
            ("second", pb.RUN_STATE_FINISHED),
        ]
        # What the learner does not hold any more cannot be had.
        await fetched(stub, "first", tmp_path / "late")
        with pytest.raises(ConfigurationError, match="does not hold"):
            await fetched(stub, "first", tmp_path / "late", weights=True)


def check_copy(home: Path, run_id: str, *, cycles: int) -> None:
    """A copy is an ordinary run folder: log and archive tell the same."""
    log = read_log(home)
    assert (log.state, len(log.cycles)) == (RunState.FINISHED, cycles)
    with Archive.open(home, read_only=True) as archive:
        assert archive.runs() == [run_id]
        environments = archive.environments(run_id)
        trajectories = [one for page in archive.trajectories(run_id) for one in page]
        attempts = [one for page in archive.attempts(run_id) for one in page]
    assert len(environments) == sum(one.admitted for one in log.cycles) > 0
    assert len(trajectories) == sum(one.episodes for one in log.cycles)
    assert len(attempts) == sum(one.attempts for one in log.cycles)
    assert all(one.statistics is not None for one in environments)
    assert any(one.header.sampled_tokens for one in trajectories)
    assert "<html" in (home / "report.html").read_text()
    best = list((home / "environments").glob("*.py"))
    assert {path.read_text() for path in best} <= {one.environment.source for one in environments}
    assert best


async def refuses_stale_files(stub, listed: pb.ListArtifactsResponse) -> None:
    first = listed.artifacts[0]
    for path, digest in ((first.path, "0" * 64), ("../../coordinator.json", first.sha256), ("/etc/passwd", "0" * 64)):
        request = pb.FetchArtifactRequest(run_id=listed.run_id, path=path, sha256=digest)
        with pytest.raises(ConfigurationError, match="list it again"):
            async with calling("coordinator"):
                [part async for part in stub.FetchArtifact(request, timeout=SECONDS)]
    half = pb.FetchArtifactRequest(run_id=listed.run_id, path=first.path, sha256=first.sha256, offset=first.size - 3)
    assert len(b"".join([part.data async for part in stub.FetchArtifact(half, timeout=SECONDS)])) == 3


async def test_a_wanted_run_goes_on_when_the_coordinator_is_started_again(folder: Path) -> None:
    own = small("run.start=true", "run.cycles=3")
    async with serve_all(own, run_dir=folder) as endpoints:
        async with coordinator(own, folder, endpoints) as stub:
            assert (await state(stub)).run_id == "release"
            await until(stub, "release", "cycle")
        # Killed in the middle: the next one begins by itself where the checkpoint is.
        async with coordinator(own, folder, endpoints) as stub:
            await until(stub, "release", "resumed")
            await stub.StopRun(pb.StopRunRequest(), timeout=SECONDS)
            await watched(stub, "release")
        # Stopped by somebody: it stays so.
        async with coordinator(own, folder, endpoints) as stub:
            assert (await state(stub)).state == pb.RUN_STATE_STOPPED
            assert (await watched(stub, "release"))[-1][1]["event"] == "run_stopped"
        # With other settings than the run's the services cannot go on with it, and say so.
        await asyncio.to_thread((folder / "coordinator.json").write_text, '{"run_id": "release", "run": true}')
        async with coordinator(small("regret.window=3"), folder, endpoints) as stub:
            refused = await state(stub)
            assert refused.state == pb.RUN_STATE_FAILED
            assert "regret.window" in refused.error
            assert "helm upgrade" in refused.error


async def test_what_the_services_were_started_with_cannot_be_changed_by_a_run(folder: Path) -> None:
    own = small()
    async with serve_all(own, run_dir=folder) as endpoints, coordinator(own, folder, endpoints) as stub:
        with pytest.raises(ConfigurationError, match=r"learner.learning_rate: 0.5, started with"):
            await start(stub, "other", small("learner.learning_rate=0.5"))
        for text, message in (("run: [", "not YAML"), ("- 1", "sections"), ("run: {cycels: 3}", "cycels")):
            with pytest.raises(ConfigurationError, match=message):
                async with calling("coordinator"):
                    await stub.StartRun(pb.StartRunRequest(run_id="other", config=text), timeout=SECONDS)
        with pytest.raises(ConfigurationError, match="run_id"):
            await start(stub, "../other", own)
        with pytest.raises(ConfigurationError, match="no run yet"):
            await state(stub)
