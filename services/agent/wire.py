"""Protobuf to what the agent and its engine work with, and back."""

from __future__ import annotations

from collections.abc import Sequence

from spade_rl.agent.engine.interface import EngineStatus, FinishReason, Generation, Prompt
from spade_rl.agent.trajectory import Arm, Play, PlayedEnvironment, Segment, StopReason, Trajectory
from spade_rl.errors import ConfigurationError
from spade_rl.kinds import EnvironmentKind
from spade_rl.v1 import agent_pb2, environment_pb2, inference_pb2, trajectory_pb2

_ARMS = {trajectory_pb2.ARM_PLAIN: Arm.PLAIN, trajectory_pb2.ARM_HINTED: Arm.HINTED}
_ARMS_OUT = {arm: number for number, arm in _ARMS.items()}
_STOP_REASONS = {
    StopReason.TERMINATED: trajectory_pb2.STOP_REASON_TERMINATED,
    StopReason.TRUNCATED: trajectory_pb2.STOP_REASON_TRUNCATED,
    StopReason.TURN_LIMIT: trajectory_pb2.STOP_REASON_TURN_LIMIT,
    StopReason.CONTEXT_LIMIT: trajectory_pb2.STOP_REASON_CONTEXT_LIMIT,
    StopReason.TOKEN_LIMIT: trajectory_pb2.STOP_REASON_TOKEN_LIMIT,
    StopReason.NO_ACTION: trajectory_pb2.STOP_REASON_NO_ACTION,
    StopReason.ENVIRONMENT_ERROR: trajectory_pb2.STOP_REASON_ENVIRONMENT_ERROR,
    StopReason.SANDBOX_ERROR: trajectory_pb2.STOP_REASON_SANDBOX_ERROR,
    StopReason.ENGINE_ERROR: trajectory_pb2.STOP_REASON_ENGINE_ERROR,
}
_FINISH_REASONS = {
    FinishReason.STOP: trajectory_pb2.FINISH_REASON_STOP,
    FinishReason.LENGTH: trajectory_pb2.FINISH_REASON_LENGTH,
}
_FINISH_REASONS_IN = {number: reason for reason, number in _FINISH_REASONS.items()}


def plays_from_wire(request: agent_pb2.RolloutRequest) -> list[Play]:
    """Return the plays of a request; raises ConfigurationError for one that cannot be played or told apart."""
    environments = [
        PlayedEnvironment(
            digest=environment.digest,
            source=environment.source,
            hint=environment.hint,
            # Of environments without a kind, as games: they are what there was before there were kinds.
            kind=EnvironmentKind.TOOL_USE
            if environment.kind == environment_pb2.ENVIRONMENT_KIND_TOOL_USE
            else EnvironmentKind.GAME,
        )
        for environment in request.environments
    ]
    plays, seen = [], set()
    for play in request.plays:
        if play.environment >= len(environments):
            raise ConfigurationError(
                f"play {play.trajectory_id} names environment {play.environment}, but {len(environments)} were sent"
            )
        if play.trajectory_id in seen:
            raise ConfigurationError(f"two plays are called {play.trajectory_id}; a trajectory's id must be unique")
        environment, arm = environments[play.environment], _ARMS[play.arm]
        if arm is Arm.HINTED and not environment.hint:
            raise ConfigurationError(f"play {play.trajectory_id} is of the hinted arm, but its environment has no hint")
        seen.add(play.trajectory_id)
        plays.append(
            Play(
                trajectory_id=play.trajectory_id,
                environment=environment,
                arm=arm,
                seed=play.seed,
                play=play.play,
                cycle=request.cycle,
            )
        )
    return plays


def segment_to_wire(segment: Segment) -> trajectory_pb2.Segment:
    """Return a segment as a message."""
    return trajectory_pb2.Segment(
        token_ids=segment.token_ids,
        log_probs=segment.log_probs,
        trained=segment.trained,
        policy_version=segment.policy_version,
        sampled=segment.sampled,
    )


def trajectory_to_wire(trajectory: Trajectory) -> trajectory_pb2.Trajectory:
    """Return a trajectory as a message."""
    play = trajectory.play
    return trajectory_pb2.Trajectory(
        id=play.trajectory_id,
        environment_digest=play.environment.digest,
        cycle=play.cycle,
        arm=_ARMS_OUT[play.arm],
        seed=play.seed,
        play=play.play,
        sequences=[
            trajectory_pb2.Sequence(segments=[segment_to_wire(segment) for segment in sequence])
            for sequence in trajectory.sequences
        ],
        turns=[
            trajectory_pb2.Turn(observation=turn.observation, reply=turn.reply, action=turn.action, reward=turn.reward)
            for turn in trajectory.turns
        ],
        episode_return=trajectory.episode_return,
        stop_reason=_STOP_REASONS[trajectory.stop_reason],
        error=trajectory.error,
        seconds=trajectory.seconds,
        last_observation=trajectory.last_observation,
    )


def prompts_from_wire(request: inference_pb2.GenerateRequest) -> list[Prompt]:
    """Return the prompts of a request."""
    return [
        Prompt(
            token_ids=tuple(prompt.token_ids),
            temperature=prompt.sampling.temperature,
            max_tokens=prompt.sampling.max_tokens,
            seed=prompt.sampling.seed,
        )
        for prompt in request.prompts
    ]


def prompts_to_wire(prompts: Sequence[Prompt]) -> inference_pb2.GenerateRequest:
    """Return prompts as a request."""
    return inference_pb2.GenerateRequest(
        prompts=[
            inference_pb2.Prompt(
                token_ids=prompt.token_ids,
                sampling=inference_pb2.Sampling(
                    temperature=prompt.temperature, max_tokens=prompt.max_tokens, seed=prompt.seed
                ),
            )
            for prompt in prompts
        ]
    )


def generation_to_wire(generation: Generation) -> inference_pb2.GenerateResponse:
    """Return a generation as a response."""
    return inference_pb2.GenerateResponse(
        index=generation.index,
        token_ids=generation.token_ids,
        log_probs=generation.log_probs,
        finish_reason=_FINISH_REASONS[generation.finish_reason],
        policy_version=generation.policy_version,
    )


def generation_from_wire(response: inference_pb2.GenerateResponse) -> Generation:
    """Return a response's generation."""
    return Generation(
        index=response.index,
        token_ids=tuple(response.token_ids),
        log_probs=tuple(response.log_probs),
        finish_reason=_FINISH_REASONS_IN[response.finish_reason],
        policy_version=response.policy_version,
    )


def status_to_wire(status: EngineStatus) -> inference_pb2.GetVersionResponse:
    """Return an engine's status as a response."""
    return inference_pb2.GetVersionResponse(
        policy_version=status.policy_version,
        model=status.model,
        engine=status.engine,
        context_length=status.context_length,
        in_flight=status.in_flight,
        generated_tokens=status.generated_tokens,
        busy_seconds=status.busy_seconds,
    )


def status_from_wire(response: inference_pb2.GetVersionResponse) -> EngineStatus:
    """Return a response's status."""
    return EngineStatus(
        policy_version=response.policy_version,
        model=response.model,
        engine=response.engine,
        context_length=response.context_length,
        in_flight=response.in_flight,
        generated_tokens=response.generated_tokens,
        busy_seconds=response.busy_seconds,
    )
