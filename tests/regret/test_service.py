"""The regret service over real gRPC, with a real agent and sandbox."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from spade_rl.config import RunConfig
from spade_rl.errors import ConfigurationError, DeadlineError
from spade_rl.regret.server import RegretServicer, longest_silence
from spade_rl.rpc import Server, calling, open_channel
from spade_rl.seeds import play_seeds
from spade_rl.v1 import environment_pb2, inference_pb2, inference_pb2_grpc, regret_pb2, regret_pb2_grpc, trajectory_pb2

# The agent's first word decides nothing, so that what the random policy says does not matter; the seed decides.
COUNT = """
class Count:
    def reset(self, seed):
        self.seed, self.turn = seed, 0
        return "go", {}
    def step(self, action):
        self.turn += 1
        return "on", float(self.seed % 2), self.turn == 2, False, {}
"""
RAISES = COUNT.replace("self.turn += 1", "self.turn += 1 if self.seed % 3 else 1 / 0")


def environment(source: str, hint: str = "left then up") -> environment_pb2.Environment:
    digest = hashlib.sha256(source.encode()).hexdigest()
    return environment_pb2.Environment(digest=digest, source=source, hint=hint)


async def evaluate(stub, environments, **fields) -> dict[str, regret_pb2.EvaluateResponse]:
    request = regret_pb2.EvaluateRequest(
        environments=environments, **{"plays": 5, "hinted": True, "run_seed": 7, "cycle": 2, "run_id": "r", **fields}
    )
    async with calling("regret"):
        responses = [response async for response in stub.Evaluate(request, timeout=60)]
    assert sorted(r.digest for r in responses) == sorted(e.digest for e in environments)
    return {response.digest: response for response in responses}


@pytest.mark.parametrize("hinted", [True, False])
async def test_every_arm_is_played_exactly_so_often_on_the_same_seeds(regret, hinted):
    environments = [environment(COUNT), environment(COUNT + "\n"), environment(COUNT + "\n\n", hint="")]
    results = await evaluate(regret, environments, hinted=hinted)
    for env in environments:
        result = results[env.digest]
        seeds = play_seeds(7, env.digest, 2, 5)
        arms = [trajectory_pb2.ARM_PLAIN] + ([trajectory_pb2.ARM_HINTED] if hinted and env.hint else [])
        assert [(t.arm, t.play, t.seed) for t in result.trajectories] == [
            (arm, play, seed) for arm in arms for play, seed in enumerate(seeds)
        ]
        expected = sum(seed % 2 for seed in seeds) / 5
        assert result.plain_return == pytest.approx(expected)
        assert result.hinted_return == pytest.approx(expected if len(arms) == 2 else 0)
        assert (result.pairs, result.regret, result.regret_standard_error) == (5 if len(arms) == 2 else 0, 0, 0)
        assert result.void_episodes == 0
        assert not result.quarantine_reason
        assert result.trajectories[0].id == f"r/c2/{env.digest[:16]}/plain/0"


async def test_an_environment_that_fails_is_quarantined_and_the_others_are_not(regret):
    bad, good = environment(RAISES), environment(COUNT)
    results = await evaluate(regret, [bad, good], plays=8)
    assert "ZeroDivisionError" in results[bad.digest].quarantine_reason
    assert results[bad.digest].void_episodes == len(results[bad.digest].void_trajectories) >= 1
    assert not results[good.digest].quarantine_reason
    assert len(results[good.digest].trajectories) == 16


async def test_an_environment_twice_in_a_request_is_refused(regret):
    with pytest.raises(ConfigurationError, match="twice"):
        async with calling("regret"):
            await evaluate(regret, [environment(COUNT)] * 2)


async def test_scores_come_in_the_order_of_the_inputs(regret):
    inputs = [
        regret_pb2.EnvironmentScoreInput(digest="a" * 64, mean_return=0.5, regret=0.2),
        regret_pb2.EnvironmentScoreInput(digest="b" * 64, mean_return=1.0, regret=0.0),
        regret_pb2.EnvironmentScoreInput(digest="c" * 64, mean_return=0.5, regret=0.2, quarantined=True),
    ]
    response = await regret.Score(regret_pb2.ScoreRequest(inputs=inputs, variant="blend"), timeout=30)
    assert list(response.rewards) == pytest.approx([1, 0, 0])
    with pytest.raises(ConfigurationError):
        async with calling("regret"):
            await regret.Score(regret_pb2.ScoreRequest(inputs=inputs, variant="best"), timeout=30)


def endless() -> regret_pb2.EvaluateRequest:
    source = COUNT.replace("self.turn == 2", "False")
    return regret_pb2.EvaluateRequest(environments=[environment(source)], plays=6, run_id="r")


async def sequences_in_flight(channels) -> int:
    inference = inference_pb2_grpc.InferenceServiceStub(channels["agent"])
    return (await inference.GetVersion(inference_pb2.GetVersionRequest(), timeout=30)).in_flight


async def eventually(channels, *, busy: bool) -> None:
    async with asyncio.timeout(30):
        while bool(await sequences_in_flight(channels)) != busy:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_a_cancelled_evaluation_ends_its_plays(channels, regret):
    call = regret.Evaluate(endless(), timeout=60)
    reading = asyncio.ensure_future(call.read())
    await eventually(channels, busy=True)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await eventually(channels, busy=False)


async def test_an_agent_that_delivers_nothing_is_an_error_not_a_hang(channels, tmp_path):
    servicer = RegretServicer(channels["agent"], silence_seconds=0.5)
    server = Server(
        address=f"unix:{tmp_path}/impatient.sock",
        services=["spade_rl.v1.RegretService"],
        register=lambda s: regret_pb2_grpc.add_RegretServiceServicer_to_server(servicer, s),
    )
    await server.start()
    async with open_channel(server.address) as channel:
        with pytest.raises(DeadlineError, match="no trajectory"):
            async with calling("regret"):
                await regret_pb2_grpc.RegretServiceStub(channel).Evaluate(endless(), timeout=60).read()
    await server.stop(0)
    await eventually(channels, busy=False)


def test_a_slow_episode_is_no_silence():
    config = RunConfig()
    slowest = config.sandbox.queue_seconds + config.sandbox.episode_seconds + config.agent.reply_seconds
    assert longest_silence(config) > slowest * (1 + config.agent.retries)
