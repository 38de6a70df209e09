"""Plays one episode: observation, reply, action, until something ends it.

The return is the last reward, clipped to [-1, 1], if the environment terminated, and 0 otherwise (ALGORITHM.md,
"Formulas"). Whoever fails is named: the environment's own code, the sandbox, or the engine; a failure makes the episode
void and says nothing about the agent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from spade_rl.agent import metrics
from spade_rl.agent.conversation import Conversation, PromptEncoder, start_conversation
from spade_rl.agent.engine.interface import Engine, FinishReason, Generation, Prompt, generate_one
from spade_rl.agent.trajectory import Arm, Play, StopReason, Trajectory, Turn
from spade_rl.errors import EnvironmentFault, SpadeError, UnavailableError
from spade_rl.prompts import PromptStyle, extract_action
from spade_rl.seeds import derive_seed

MAX_ERROR = 4096


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step did."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool


class EpisodeStream(Protocol):
    """An episode in the sandbox. Raises EnvironmentFault for the environment's faults, other SpadeErrors for ours."""

    async def reset(self, source: str, seed: int) -> str:
        """Make the instance of ``seed`` and return its first observation."""
        ...

    async def step(self, action: str) -> Outcome:
        """Take one action."""
        ...


OpenEpisode = Callable[[], AbstractAsyncContextManager[EpisodeStream]]


@dataclass(frozen=True, slots=True)
class Rules:
    """How episodes are played; ``history_turns`` None: the agent sees everything."""

    style: PromptStyle
    temperature: float
    max_tokens: int
    max_turns: int
    history_turns: int | None
    reply_seconds: float
    returns_only: bool = False


class _EngineFailed(Exception):
    """The engine did not answer."""


@dataclass(slots=True)
class _Progress:
    turns: list[Turn]
    observation: str = ""
    episode_return: float = 0.0


async def play_episode(
    play: Play, *, engine: Engine, open_episode: OpenEpisode, encoder: PromptEncoder, rules: Rules
) -> Trajectory:
    """Play ``play`` once and return its trajectory; a void one if something failed.

    Raises UnavailableError if the sandbox service is not there, or was ended under the episode.
    """
    start = time.monotonic()
    conversation = start_conversation(
        encoder,
        hint=play.hint,
        trained=play.arm is Arm.PLAIN,
        history_turns=rules.history_turns,
        kind=play.environment.kind,
    )
    progress = _Progress(turns=[])
    try:
        async with open_episode() as episode:
            reason, error = await _play(play, episode, engine, encoder, rules, conversation, progress), ""
    except _EngineFailed as failure:
        reason, error = StopReason.ENGINE_ERROR, str(failure)
    except UnavailableError:
        raise
    except EnvironmentFault as fault:
        reason, error = StopReason.ENVIRONMENT_ERROR, str(fault)
    except SpadeError as failure:
        reason, error = StopReason.SANDBOX_ERROR, f"{failure.boundary}: {failure}"
    return Trajectory(
        play=play,
        stop_reason=reason,
        episode_return=progress.episode_return,
        sequences=() if error or rules.returns_only else conversation.sequences(),
        turns=() if rules.returns_only else tuple(progress.turns),
        error=error[:MAX_ERROR],
        seconds=time.monotonic() - start,
        last_observation=progress.observation,
    )


async def _play(
    play: Play,
    episode: EpisodeStream,
    engine: Engine,
    encoder: PromptEncoder,
    rules: Rules,
    conversation: Conversation,
    progress: _Progress,
) -> StopReason:
    progress.observation = await episode.reset(play.environment.source, play.seed)
    for number in range(rules.max_turns):
        conversation.observe(progress.observation)
        prompt = conversation.prompt()
        room = engine.context_length - len(prompt)
        if room < 1:
            return StopReason.CONTEXT_LIMIT
        generation = await _reply(play, number, engine, rules, prompt)
        metrics.TURNS.inc()
        conversation.reply(generation)
        reply = encoder.text(generation.token_ids)
        action = extract_action(rules.style, reply, play.environment.kind)
        if action is None:
            progress.turns.append(Turn(observation=progress.observation, reply=reply, action="", reward=0.0))
            if generation.finish_reason is FinishReason.STOP:
                return StopReason.NO_ACTION
            return StopReason.TOKEN_LIMIT if room >= rules.max_tokens else StopReason.CONTEXT_LIMIT
        outcome = await episode.step(action)
        if not math.isfinite(outcome.reward):
            raise EnvironmentFault(f"contract: the reward of step {number + 1} is {outcome.reward}, not a number")
        reward = min(1.0, max(-1.0, outcome.reward))
        progress.turns.append(Turn(observation=progress.observation, reply=reply, action=action, reward=reward))
        progress.observation = outcome.observation
        if outcome.terminated:
            progress.episode_return = reward
            return StopReason.TERMINATED
        if outcome.truncated:
            return StopReason.TRUNCATED
    return StopReason.TURN_LIMIT


async def _reply(play: Play, number: int, engine: Engine, rules: Rules, prompt: tuple[int, ...]) -> Generation:
    request = Prompt(
        token_ids=prompt,
        temperature=rules.temperature,
        max_tokens=rules.max_tokens,
        seed=derive_seed(play.seed, "turn", number, play.arm.value),
    )
    try:
        return await generate_one(engine, request, seconds=rules.reply_seconds)
    except SpadeError as error:
        raise _EngineFailed(f"{error.boundary}: {error}") from error
