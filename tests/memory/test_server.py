"""The memory service over gRPC, on both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from spade_rl.config import Endpoints
from spade_rl.config_files import validate_config
from spade_rl.errors import ConfigurationError, MemoryStoreError, SpadeError
from spade_rl.memory import wire
from spade_rl.memory.records import Record
from spade_rl.memory.server import serve
from spade_rl.rpc import calling, open_channel
from spade_rl.v1 import memory_pb2 as pb
from spade_rl.v1.memory_pb2_grpc import MemoryServiceStub

RUN = "run-1"
DEADLINE = 30


def request(record: Record) -> pb.RecordRequest:
    return pb.RecordRequest(
        run_id=record.run_id,
        cycle=record.cycle,
        attempts=[wire.attempt_message(attempt).attempt for attempt in record.attempts],
        environments=[wire.environment_message(environment) for environment in record.environments],
        trajectories=[wire.trajectory_message(trajectory) for trajectory in record.trajectories],
        statistics=[wire.statistics_message(statistics) for statistics in record.statistics],
    )


@pytest.fixture
async def memory(database: str | None, tmp_path: Path) -> AsyncIterator[MemoryServiceStub]:
    config = validate_config({"memory": {"url": database, "learnable": [0.2, 0.8], "recent": 10}})
    address = f"unix:{tmp_path}/memory.sock"
    async with (
        serve(config, run_dir=tmp_path, address=address, endpoints=Endpoints()),
        open_channel(address) as channel,
    ):
        yield MemoryServiceStub(channel)


async def test_a_record_comes_back_as_it_was_sent(memory: MemoryServiceStub, make: Any) -> None:
    sent = request(make.record(3, "A", "B"))
    counts = await memory.Record(sent, timeout=DEADLINE)
    assert (counts.new_attempts, counts.new_environments, counts.new_trajectories) == (2, 2, 8)
    assert await memory.Record(sent, timeout=DEADLINE) == pb.RecordResponse()
    environments = [e async for e in memory.ListEnvironments(pb.ListEnvironmentsRequest(run_id=RUN), timeout=DEADLINE)]
    assert {e.environment.digest: e.environment for e in environments} == {e.digest: e for e in sent.environments}
    assert {e.statistics.digest: e.statistics for e in environments} == {s.digest: s for s in sent.statistics}
    attempts = [a async for a in memory.ListAttempts(pb.ListAttemptsRequest(run_id=RUN), timeout=DEADLINE)]
    assert [a.cycle for a in attempts] == [3, 3]
    assert [a.attempt for a in attempts] == list(sent.attempts)
    listed = memory.ListTrajectories(pb.ListTrajectoriesRequest(run_id=RUN), timeout=DEADLINE)
    trajectories = {t.trajectory.id: t.trajectory async for t in listed}
    assert trajectories == {t.id: t for t in sent.trajectories}
    digests = await memory.ListNormalisedDigests(pb.ListNormalisedDigestsRequest(run_id=RUN), timeout=DEADLINE)
    assert list(digests.digests) == sorted(a.normalised_digest for a in sent.attempts)


async def test_text_only_and_limit(memory: MemoryServiceStub, make: Any) -> None:
    await memory.Record(request(make.record(0, "A")), timeout=DEADLINE)
    listed = memory.ListTrajectories(pb.ListTrajectoriesRequest(run_id=RUN, text_only=True, limit=3), timeout=DEADLINE)
    trajectories = [t.trajectory async for t in listed]
    assert len(trajectories) == 3
    assert all(t.turns and not t.sequences for t in trajectories)


async def test_seeds_are_of_the_run_the_skill_and_the_past(memory: MemoryServiceStub, make: Any) -> None:
    good, easy, other = (make.environment(name) for name in ("Good", "Easy", "Other"))
    elsewhere = make.environment("Elsewhere", skill="space")
    broken = make.environment("Broken")
    statistics = (
        make.statistics(good),
        make.statistics(easy, 1.0),
        make.statistics(broken, quarantined=True, quarantine_reason="raised KeyError"),
        make.statistics(elsewhere),
    )
    refused = make.attempt(0, refusal="the solution does not win")
    first = Record(RUN, 0, (refused,), (good, easy, elsewhere, broken), statistics=statistics)
    await memory.Record(request(first), timeout=DEADLINE)
    await memory.Record(
        request(Record(RUN, 1, environments=(other,), statistics=(make.statistics(other),))), timeout=DEADLINE
    )
    foreign = type(make)(run_id="run-2")
    await memory.Record(request(foreign.record(0, "Foreign")), timeout=DEADLINE)

    async def sample(before_cycle: int, skill: str = "count") -> tuple[set[str], dict[str, str]]:
        wanted = pb.SampleSeedsRequest(
            run_id=RUN, skill=skill, seed=7, before_cycle=before_cycle, positives=16, negatives=16
        )
        found = await memory.SampleSeeds(wanted, timeout=DEADLINE)
        assert found == await memory.SampleSeeds(wanted, timeout=DEADLINE)
        return {s.environment.digest for s in found.positives}, {
            s.environment.source: s.reason for s in found.negatives
        }

    assert await sample(0) == (set(), {})
    assert await sample(1, "space") == ({elsewhere.digest}, {})
    positives, negatives = await sample(1)
    assert positives == {good.digest}
    assert negatives == {
        easy.source: "too easy",
        broken.source: "raised KeyError",
        refused.source: "the solution does not win",
    }
    assert (await sample(2))[0] == {good.digest, other.digest}


async def test_rollback_over_the_wire(memory: MemoryServiceStub, make: Any) -> None:
    for cycle, name in enumerate("ABC"):
        await memory.Record(request(make.record(cycle, name)), timeout=DEADLINE)
    gone = await memory.Rollback(pb.RollbackRequest(run_id=RUN, last_cycle=0), timeout=DEADLINE)
    assert json_format.MessageToDict(gone) == {"environments": "2", "trajectories": "8"}
    gone = await memory.Rollback(pb.RollbackRequest(run_id=RUN, last_cycle=-1), timeout=DEADLINE)
    assert gone == pb.RollbackResponse(environments=1, trajectories=4)


async def test_bad_requests_and_failures_name_their_boundary(
    memory: MemoryServiceStub, make: Any, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match="run_id"):
        async with calling("memory"):
            await memory.Record(pb.RecordRequest(), timeout=DEADLINE)
    await memory.Record(request(make.record(0, "A")), timeout=DEADLINE)
    for part in (tmp_path / "trajectories").iterdir():
        part.unlink()
    with pytest.raises(MemoryStoreError, match="cannot read the trajectories"):
        async with calling("memory"):
            [t async for t in memory.ListTrajectories(pb.ListTrajectoriesRequest(run_id=RUN), timeout=DEADLINE)]


async def test_a_run_that_is_not_there_is_empty(memory: MemoryServiceStub) -> None:
    listed = memory.ListEnvironments(pb.ListEnvironmentsRequest(run_id="none"), timeout=DEADLINE)
    assert [e async for e in listed] == []


async def test_a_foreign_database_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "memory.sqlite").write_bytes(b"no database at all, but long enough to look at" * 50)
    with pytest.raises(SpadeError, match="not a SQLite database"):
        async with serve(
            validate_config({}), run_dir=tmp_path, address=f"unix:{tmp_path}/m.sock", endpoints=Endpoints()
        ):
            pass
