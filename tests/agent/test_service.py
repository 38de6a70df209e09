"""Agent and inference services over real gRPC, on a real engine."""

from __future__ import annotations

import hashlib
import textwrap

import grpc
import pytest

from spade_rl.errors import ConfigurationError, DeadlineError, EngineError
from spade_rl.prompts import PromptStyle, agent_observation, agent_opening
from spade_rl.rpc import calling
from spade_rl.v1 import (
    agent_pb2,
    agent_pb2_grpc,
    environment_pb2,
    inference_pb2,
    inference_pb2_grpc,
    trajectory_pb2,
)

COUNT = """
class Count:
    def reset(self, seed):
        self.seed, self.turn = seed, 0
        return f"go {seed % 7}", {}
    def step(self, action):
        self.turn += 1
        done = self.turn == 3
        return f"turn {self.turn}", (self.seed % 5 - 2) / 2 if done else 0.25, done, False, {}
"""
ENDLESS = COUNT.replace("self.turn == 3", "False")
CUT = COUNT.replace("done, False", "False, done")
RAISES = COUNT.replace("done = ", "1 / 0; done = ")
NAN = COUNT.replace("0.25", "float('nan')")
CHANCE = COUNT.replace('f"turn {self.turn}"', 'f"turn {random.random()}"')
LONG = COUNT.replace('f"turn {self.turn}"', '"word " * 400')


def environment(source: str, hint: str = "left then up") -> environment_pb2.Environment:
    digest = hashlib.sha256(source.encode()).hexdigest()
    return environment_pb2.Environment(digest=digest, source=textwrap.dedent(source), hint=hint)


def request(*sources: str, plays: int = 4, arms=(trajectory_pb2.ARM_PLAIN,), **fields) -> agent_pb2.RolloutRequest:
    return agent_pb2.RolloutRequest(
        environments=[environment(source) for source in sources],
        plays=[
            agent_pb2.Play(trajectory_id=f"r/{index}/{arm}/{play}", environment=index, arm=arm, seed=play, play=play)
            for index in range(len(sources))
            for arm in arms
            for play in range(plays)
        ],
        cycle=3,
        **fields,
    )


async def rollout(channel, message: agent_pb2.RolloutRequest, seconds: float = 60) -> list[trajectory_pb2.Trajectory]:
    async with calling("agent"):
        call = agent_pb2_grpc.AgentServiceStub(channel).Rollout(message, timeout=seconds)
        trajectories = [response.trajectory async for response in call]
    assert sorted(t.id for t in trajectories) == sorted(play.trajectory_id for play in message.plays)
    return sorted(trajectories, key=lambda t: [play.trajectory_id for play in message.plays].index(t.id))


async def test_every_play_is_played_once_to_its_end(serve_agent):
    channel = await serve_agent()
    both = (trajectory_pb2.ARM_PLAIN, trajectory_pb2.ARM_HINTED)
    for t in await rollout(channel, request(COUNT, COUNT + "\n", plays=10, arms=both)):
        assert t.stop_reason == trajectory_pb2.STOP_REASON_TERMINATED
        assert t.episode_return == (t.seed % 5 - 2) / 2
        assert [turn.observation for turn in t.turns] == [f"go {t.seed % 7}", "turn 1", "turn 2"]
        assert [turn.reward for turn in t.turns] == [0.25, 0.25, t.episode_return]
        assert t.last_observation == "turn 3"
        assert t.cycle == 3
        assert len(t.sequences) == 3
        for sequence in t.sequences:
            context, sampled = sequence.segments
            assert not context.sampled
            assert sampled.sampled
            assert len(sampled.token_ids) == len(sampled.log_probs) > 0
            assert sampled.trained == (t.arm == trajectory_pb2.ARM_PLAIN)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (ENDLESS, trajectory_pb2.STOP_REASON_TURN_LIMIT),
        (CUT, trajectory_pb2.STOP_REASON_TRUNCATED),
        (LONG, trajectory_pb2.STOP_REASON_CONTEXT_LIMIT),
    ],
)
async def test_an_episode_that_does_not_terminate_earns_nothing(serve_agent, source, reason):
    channel = await serve_agent()
    for t in await rollout(channel, request(source)):
        assert t.stop_reason == reason
        assert t.episode_return == 0
        assert not t.error
        assert len(t.sequences) == len(t.turns) >= 1


@pytest.mark.parametrize("source", [RAISES, NAN])
async def test_the_environments_own_failure_is_void_and_not_the_agents(serve_agent, source):
    channel = await serve_agent()
    for t in await rollout(channel, request(source)):
        assert t.stop_reason == trajectory_pb2.STOP_REASON_ENVIRONMENT_ERROR
        assert t.error
        assert t.episode_return == 0
        assert not t.sequences


async def test_an_environment_that_does_not_repeat_itself_is_at_fault(serve_agent, doubting_sandbox):
    channel = await serve_agent(sandbox=doubting_sandbox)
    trajectories = await rollout(channel, request(COUNT, CHANCE))
    assert [t.stop_reason for t in trajectories] == (
        [trajectory_pb2.STOP_REASON_TERMINATED] * 4 + [trajectory_pb2.STOP_REASON_ENVIRONMENT_ERROR] * 4
    )
    # Once it is known, no more of its episodes are played.
    assert {t.error.split(":")[0] for t in trajectories[4:]} <= {"replay", "quarantine"}
    assert "showed another observation the second time" in trajectories[4].error
    assert [t.error.split(":")[0] for t in await rollout(channel, request(CHANCE))] == ["quarantine"] * 4


async def test_one_broken_environment_does_not_disturb_the_others(serve_agent):
    channel = await serve_agent()
    trajectories = await rollout(channel, request(RAISES, COUNT, ENDLESS, plays=6))
    assert [t.stop_reason for t in trajectories] == (
        [trajectory_pb2.STOP_REASON_ENVIRONMENT_ERROR] * 6
        + [trajectory_pb2.STOP_REASON_TERMINATED] * 6
        + [trajectory_pb2.STOP_REASON_TURN_LIMIT] * 6
    )


async def test_equal_seeds_play_equal_episodes_and_the_arms_draw_apart(serve_agent):
    channel = await serve_agent("agent.temperature=1.0")
    both = (trajectory_pb2.ARM_PLAIN, trajectory_pb2.ARM_HINTED)
    first, second = [await rollout(channel, request(COUNT, arms=both)) for _ in range(2)]
    assert [t.turns for t in first] == [t.turns for t in second]
    plain, hinted = first[:4], first[4:]
    assert [t.seed for t in plain] == [t.seed for t in hinted]
    assert [t.turns for t in plain] != [t.turns for t in hinted]


async def test_whole_history_is_one_sequence_of_the_ids_that_were_sampled(serve_agent, tokenizer):
    channel = await serve_agent("agent.history_turns=null")
    for t in await rollout(channel, request(ENDLESS)):
        (sequence,) = t.sequences
        assert [segment.sampled for segment in sequence.segments] == [False, True] * len(t.turns)
        messages = list(agent_opening(PromptStyle.COMPACT, None))
        ids: list[int] = []
        for turn, context, sampled in zip(t.turns, sequence.segments[::2], sequence.segments[1::2], strict=True):
            messages.append(agent_observation(PromptStyle.COMPACT, turn.observation, None))
            ids += context.token_ids
            # The template's own rendering of the conversation, as text: replies may be cut in other tokens there.
            assert tokenizer.decode(ids) == tokenizer.decode(tokenizer.encode_chat(messages))
            assert turn.reply == tokenizer.decode(list(sampled.token_ids))
            ids += sampled.token_ids
            messages.append({"role": "assistant", "content": turn.reply})


async def test_no_action_ends_the_episode(serve_agent):
    channel = await serve_agent("model.prompts=full", "agent.max_tokens=120", "agent.temperature=1.5")
    reasons = {t.stop_reason for t in await rollout(channel, request(COUNT, plays=8))}
    assert reasons <= {
        trajectory_pb2.STOP_REASON_NO_ACTION,
        trajectory_pb2.STOP_REASON_TOKEN_LIMIT,
        trajectory_pb2.STOP_REASON_CONTEXT_LIMIT,
    }
    assert trajectory_pb2.STOP_REASON_NO_ACTION in reasons


async def test_returns_only_carries_neither_tokens_nor_turns(serve_agent):
    channel = await serve_agent()
    for t in await rollout(channel, request(COUNT, returns_only=True)):
        assert t.episode_return == (t.seed % 5 - 2) / 2
        assert not t.sequences
        assert not t.turns


async def test_a_greedy_rollout_ignores_the_configured_temperature(serve_agent):
    channel = await serve_agent("agent.temperature=1.5")
    trajectories = await rollout(channel, request(ENDLESS.replace("seed % 7", "0"), temperature=0.0))
    assert len({tuple(turn.reply for turn in t.turns) for t in trajectories}) == 1


async def test_a_sandbox_that_is_down_makes_void_episodes_after_the_retries(serve_agent, tmp_path):
    channel = await serve_agent("sandbox.reachable_seconds=0.5", sandbox=f"unix:{tmp_path}/nobody.sock")
    for t in await rollout(channel, request(COUNT)):
        assert t.stop_reason == trajectory_pb2.STOP_REASON_SANDBOX_ERROR
        assert "sandbox" in t.error


async def test_an_engine_that_fails_makes_void_episodes_after_the_retries(serve_agent, make_policy):
    channel = await serve_agent()
    stub = inference_pb2_grpc.InferenceServiceStub(channel)
    await stub.LoadVersion(
        inference_pb2.LoadVersionRequest(policy_version=1, uri=str(make_policy(broken=True))), timeout=60
    )
    for t in await rollout(channel, request(COUNT)):
        assert t.stop_reason == trajectory_pb2.STOP_REASON_ENGINE_ERROR
        assert "not finite" in t.error
        assert not t.sequences


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.plays.append(agent_pb2.Play(trajectory_id="x", environment=9, arm=trajectory_pb2.ARM_PLAIN)),
        lambda r: r.plays.append(r.plays[0]),
        lambda r: (
            r.environments[0].ClearField("hint")
            or r.plays.append(agent_pb2.Play(trajectory_id="x", arm=trajectory_pb2.ARM_HINTED))
        ),
        lambda r: r.ClearField("plays"),
    ],
)
async def test_a_request_that_cannot_be_played_is_refused(serve_agent, change):
    channel = await serve_agent()
    message = request(COUNT)
    change(message)
    with pytest.raises(ConfigurationError):
        await rollout(channel, message)


async def status(channel) -> inference_pb2.GetVersionResponse:
    stub = inference_pb2_grpc.InferenceServiceStub(channel)
    return await stub.GetVersion(inference_pb2.GetVersionRequest(), timeout=30)


async def started(channel) -> bool:
    return (await status(channel)).generated_tokens > 0


async def idle(channel) -> bool:
    return (await status(channel)).in_flight == 0


async def test_a_cancelled_call_frees_its_places_and_slots(serve_agent, eventually):
    channel = await serve_agent("agent.max_turns=100000")
    call = agent_pb2_grpc.AgentServiceStub(channel).Rollout(request(ENDLESS, plays=30), timeout=60)
    await eventually(lambda: started(channel))
    call.cancel()
    await eventually(lambda: idle(channel))
    assert len(await rollout(channel, request(COUNT, plays=20))) == 20


def generate_request(count: int, max_tokens: int = 5) -> inference_pb2.GenerateRequest:
    return inference_pb2.GenerateRequest(
        prompts=[
            inference_pb2.Prompt(
                token_ids=[5, 6, 7 + index % 200],
                sampling=inference_pb2.Sampling(temperature=1.0, max_tokens=max_tokens, seed=index),
            )
            for index in range(count)
        ]
    )


async def test_generation_over_the_wire(serve_agent, make_policy):
    channel = await serve_agent()
    stub = inference_pb2_grpc.InferenceServiceStub(channel)
    # Without a deadline of the client's, the configured one holds.
    responses = [response async for response in stub.Generate(generate_request(20))]
    assert sorted(response.index for response in responses) == list(range(20))
    assert all(len(r.token_ids) == len(r.log_probs) > 0 and r.policy_version == 0 for r in responses)
    loaded = await stub.LoadVersion(
        inference_pb2.LoadVersionRequest(policy_version=4, uri=str(make_policy(1))), timeout=60
    )
    assert loaded.policy_version == (await status(channel)).policy_version == 4
    unpublished = inference_pb2.LoadVersionRequest(policy_version=5, uri=str(make_policy(2, complete=False)))
    with pytest.raises(EngineError, match="COMPLETE"):
        async with calling("inference"):
            await stub.LoadVersion(unpublished, timeout=60)
    assert (await status(channel)).policy_version == 4


async def test_the_clients_deadline_is_the_engines(serve_agent, eventually):
    channel = await serve_agent()
    stub = inference_pb2_grpc.InferenceServiceStub(channel)
    with pytest.raises(DeadlineError):
        async with calling("inference"):
            _ = [r async for r in stub.Generate(generate_request(3000, 200), timeout=0.2)]
    await eventually(lambda: idle(channel))


async def test_an_agent_without_an_engine_uses_the_one_elsewhere(serve_agent, tmp_path):
    await serve_agent()
    channel = await serve_agent(inference=f"unix:{tmp_path}/agent-1.sock")
    assert len(await rollout(channel, request(COUNT))) == 4
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await status(channel)
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED
