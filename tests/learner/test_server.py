"""The contract over real gRPC."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from learner_cases import make_samples, message, requests

from spade_rl.config import Endpoints, RunConfig
from spade_rl.errors import CapacityError, ConfigurationError, LearnerError
from spade_rl.learner.learner import Learner
from spade_rl.learner.samples import Role, Sample
from spade_rl.learner.server import serve
from spade_rl.learner.wire import to_sample
from spade_rl.rpc import calling, open_channel
from spade_rl.v1 import learner_pb2, learner_pb2_grpc, trajectory_pb2

Stub = learner_pb2_grpc.LearnerServiceStub


@pytest.fixture
async def stub(make_config: Callable[..., RunConfig], tmp_path: Path) -> AsyncIterator[Stub]:
    with tempfile.TemporaryDirectory() as sockets:
        address = f"unix:{sockets}/learner.sock"
        async with (
            serve(make_config(steps=2), run_dir=tmp_path / "run", address=address, endpoints=Endpoints()),
            open_channel(address) as channel,
        ):
            yield learner_pb2_grpc.LearnerServiceStub(channel)


async def test_a_run_of_updates_checkpoint_and_rewind(stub: Stub, tmp_path: Path) -> None:
    policy = await stub.GetPolicy(learner_pb2.GetPolicyRequest(), timeout=30)
    assert (policy.policy_version, policy.engine) == (0, "torch")
    assert (Path(policy.uri) / "COMPLETE").exists()

    first = await stub.Train(requests(0, make_samples(1)), timeout=60)
    assert first.policy_version == 1
    assert first.metrics["tokens_agent"] > 0
    again = await stub.Train(requests(0, make_samples(1)), timeout=60)
    assert again == first

    uri = str(tmp_path / "checkpoint")
    saved = await stub.SaveCheckpoint(learner_pb2.SaveCheckpointRequest(uri=uri), timeout=30)
    assert saved.policy_version == 1
    second = await stub.Train(requests(1, make_samples(2)), timeout=60)
    loaded = await stub.LoadCheckpoint(learner_pb2.LoadCheckpointRequest(uri=uri), timeout=30)
    assert loaded.policy_version == 1
    assert (Path(loaded.uri) / "COMPLETE").exists()
    repeated = await stub.Train(requests(1, make_samples(2)), timeout=60)
    assert repeated.metrics["gradient_norm"] == second.metrics["gradient_norm"]


async def test_a_broken_stream_changes_nothing(stub: Stub) -> None:
    sent = asyncio.Event()

    async def broken() -> AsyncIterator[learner_pb2.TrainRequest]:
        yield next(requests(0, make_samples(1)))
        sent.set()
        await asyncio.Event().wait()

    call = stub.Train(broken(), timeout=60)
    await asyncio.wait_for(sent.wait(), 30)
    call.cancel()
    # The server hears of it a moment later; until then it is busy with the broken stream.
    async with asyncio.timeout(30):
        while True:
            try:
                async with calling("learner"):
                    policy = await stub.GetPolicy(learner_pb2.GetPolicyRequest(), timeout=30)
                    answer = await stub.Train(requests(0, make_samples(1)), timeout=60)
                break
            except CapacityError:
                await asyncio.sleep(0.01)
    assert policy.policy_version == 0
    assert answer.policy_version == 1
    assert answer.metrics["samples"] == len(make_samples(1))


async def test_a_second_update_at_the_same_time_is_refused(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    started, release = Event(), Event()
    train = Learner.train

    def slow(self: Learner, update: int, samples: list[Sample], *, seed: int | None) -> object:
        started.set()
        assert release.wait(60)
        return train(self, update, samples)

    monkeypatch.setattr(Learner, "train", slow)
    first = asyncio.ensure_future(stub.Train(requests(0, make_samples(1)), timeout=60))
    await asyncio.to_thread(started.wait, 30)
    try:
        with pytest.raises(CapacityError, match="another update is running"):
            async with calling("learner"):
                await stub.Train(requests(0, make_samples(1)), timeout=30)
    finally:
        release.set()
    assert (await first).policy_version == 1


async def test_bad_calls_name_what_is_wrong(stub: Stub, tmp_path: Path) -> None:
    async def refused(call: object, error: type[Exception], text: str) -> None:
        with pytest.raises(error, match=text):
            async with calling("learner"):
                await call  # type: ignore[misc]

    mixed = [*requests(0, make_samples(1)), *requests(1, make_samples(2))]
    await refused(stub.Train(iter(mixed), timeout=30), ConfigurationError, "updates 0 and 1")
    part = list(requests(0, make_samples(1)))[:1]
    await refused(stub.Train(iter(part), timeout=30), LearnerError, "broke off: 10 samples came")
    await refused(stub.Train(iter([]), timeout=30), ConfigurationError, "before its first message")
    await refused(stub.Train(requests(6, make_samples(1)), timeout=30), ConfigurationError, "next update is number 0")
    load = learner_pb2.LoadCheckpointRequest(uri=str(tmp_path / "nowhere"))
    await refused(stub.LoadCheckpoint(load, timeout=30), ConfigurationError, "no checkpoint")
    remote = learner_pb2.SaveCheckpointRequest(uri="s3://bucket/x")
    await refused(stub.SaveCheckpoint(remote, timeout=30), ConfigurationError, "not a local path")
    nan = message(make_samples(1)[0])
    nan.reward = float("nan")
    bad = learner_pb2.TrainRequest(update=0, total=1, samples=[nan])
    await refused(stub.Train(iter([bad]), timeout=30), ConfigurationError, "finite")
    broken = message(make_samples(1)[0])
    broken.sequence.segments[1].log_probs[0] = float("nan")
    bad = learner_pb2.TrainRequest(update=0, total=1, samples=[broken])
    await refused(stub.Train(iter([bad]), timeout=30), LearnerError, broken.unit)
    assert (await stub.Train(requests(0, make_samples(1)), timeout=60)).policy_version == 1


def test_segments_become_one_sequence() -> None:
    segment = trajectory_pb2.Segment
    sample = to_sample(
        learner_pb2.Sample(
            sequence=trajectory_pb2.Sequence(
                segments=[
                    segment(token_ids=[1, 2]),
                    segment(token_ids=[3], log_probs=[-0.5], sampled=True, trained=True, policy_version=4),
                    segment(token_ids=[5], log_probs=[-1.5], sampled=True, policy_version=1),
                    segment(token_ids=[6], log_probs=[-2.5], sampled=True, trained=True, policy_version=3),
                ]
            ),
            role=learner_pb2.ROLE_DESIGNER,
            group="g",
            unit="u",
            reward=0.5,
        )
    )
    assert sample.token_ids.tolist() == [1, 2, 3, 5, 6]
    assert sample.trained.tolist() == [False, False, True, False, True]
    assert np.isnan(sample.log_probs[:2]).all()
    assert sample.log_probs[2:].tolist() == [-0.5, -1.5, -2.5]
    assert (sample.policy_version, sample.role) == (3, Role.DESIGNER)
