"""An episode by tools, from the wire to the return; only the policy's words are scripted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from spade_rl.rpc import Server, calling
from spade_rl.v1 import agent_pb2, environment_pb2, inference_pb2, inference_pb2_grpc, trajectory_pb2
from spade_rl.v1.agent_pb2_grpc import AgentServiceStub

SOURCE = (Path(__file__).parents[2] / "examples" / "environments" / "help_desk.py").read_text()
SEED = 11


class Script(inference_pb2_grpc.InferenceServiceServicer):
    """Gives ``replies`` one after the other."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.replies: list[str] = []
        self.prompts: list[str] = []

    async def GetVersion(self, request, context):
        return inference_pb2.GetVersionResponse(policy_version=1, model="m", engine="script", context_length=100_000)

    async def Generate(self, request, context):
        for index, prompt in enumerate(request.prompts):
            self.prompts.append(self._tokenizer.decode(prompt.token_ids))
            ids = [*self._tokenizer._ids(self.replies.pop(0), control=False), *self._tokenizer.end_tokens()]
            yield inference_pb2.GenerateResponse(
                index=index,
                token_ids=ids,
                log_probs=[-0.5] * len(ids),
                finish_reason=trajectory_pb2.FINISH_REASON_STOP,
                policy_version=1,
            )


@pytest.fixture
async def script(tokenizer: Any, tmp_path: Path) -> AsyncIterator[tuple[Script, str]]:
    servicer, address = Script(tokenizer), f"unix:{tmp_path}/inference.sock"
    server = Server(
        address=address,
        services=["spade_rl.v1.InferenceService"],
        register=lambda s: inference_pb2_grpc.add_InferenceServiceServicer_to_server(servicer, s),
    )
    await server.start()
    yield servicer, address
    await server.stop()


def solution() -> list[str]:
    space: dict[str, Any] = {}
    exec(SOURCE, space)
    environment = space["HelpDesk"]()
    environment.reset(SEED)
    return environment.solution()


async def played(
    serve_agent: Any, script: tuple[Script, str], replies: Sequence[str], kind: int, style: str = "full"
) -> trajectory_pb2.Trajectory:
    servicer, address = script
    servicer.replies = list(replies)
    settings = [f"model.prompts={style}", "agent.history_turns=null", "agent.max_turns=12", "agent.max_tokens=900"]
    channel = await serve_agent(*settings, "agent.engine.context_tokens=100000", inference=address)
    environment = environment_pb2.Environment(digest="0" * 64, source=SOURCE, kind=kind, hint="Find the ticket first.")
    play = agent_pb2.Play(environment=0, arm=trajectory_pb2.ARM_HINTED, seed=SEED, trajectory_id="t")
    async with calling("agent"):
        request = agent_pb2.RolloutRequest(environments=[environment], plays=[play])
        [response] = [each async for each in AgentServiceStub(channel).Rollout(request, timeout=60)]
    return response.trajectory


async def test_calls_in_plain_replies_win(serve_agent: Any, script: tuple[Script, str]) -> None:
    calls = solution()
    replies = [
        "<think>Which one?</think>I have no idea.",
        '{"tool": "find", "arguments": {"writer": "Nobody"}}',
        *(f"<think>{{x}}</think>I call:\n```json\n{each}\n```" for each in calls),
    ]
    trajectory = await played(serve_agent, script, replies, environment_pb2.ENVIRONMENT_KIND_TOOL_USE)
    assert trajectory.error == ""
    assert trajectory.stop_reason == trajectory_pb2.STOP_REASON_TERMINATED
    assert trajectory.episode_return == 1.0
    observations = [turn.observation for turn in trajectory.turns]
    assert observations[1].startswith("Error: there is no call")
    assert observations[2].startswith("Error: Nobody has written no ticket")
    assert trajectory.turns[-1].action == f"I call:\n```json\n{calls[-1]}\n```"
    first = script[0].prompts[0]
    assert "You act in an environment through tools" in first
    assert "Advice for this environment: Find the ticket first." in first
    assert '"name": "set_level"' in first
    assert "Instruction 1 of 3" in first
    assert "Instruction 2 of 3" not in first
    # The agent sees the whole conversation, with the tools at its beginning.
    assert '"name": "set_level"' in script[0].prompts[-1]
    assert "Instruction 3 of 3" in script[0].prompts[-1]


async def test_a_compact_agent_says_nothing_but_the_call(serve_agent: Any, script: tuple[Script, str]) -> None:
    kind = environment_pb2.ENVIRONMENT_KIND_TOOL_USE
    trajectory = await played(serve_agent, script, solution(), kind, style="compact")
    assert (trajectory.error, trajectory.episode_return) == ("", 1.0)
    assert "You act in an environment" not in script[0].prompts[0]


async def test_without_a_kind_an_action_stands_in_a_box(serve_agent: Any, script: tuple[Script, str]) -> None:
    replies = [f"Think {{x}}: \\boxed{{{each}}}" for each in solution()]
    trajectory = await played(serve_agent, script, replies, environment_pb2.ENVIRONMENT_KIND_UNSPECIFIED)
    assert (trajectory.error, trajectory.episode_return) == ("", 1.0)
    assert "\\boxed{}" in script[0].prompts[0]


async def test_thoughts_without_an_end_are_no_action(serve_agent: Any, script: tuple[Script, str]) -> None:
    kind = environment_pb2.ENVIRONMENT_KIND_TOOL_USE
    trajectory = await played(serve_agent, script, ['<think>{"tool": "submit"}'], kind)
    assert trajectory.stop_reason == trajectory_pb2.STOP_REASON_NO_ACTION
    assert trajectory.episode_return == 0.0
