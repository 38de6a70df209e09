"""Protobuf to what the regret service works with, and back."""

from __future__ import annotations

from collections.abc import Sequence

from spade_rl.regret.evaluation import HINTED, PLAIN, Evaluation, PlannedPlay, Played
from spade_rl.regret.rewards import Measured
from spade_rl.v1 import agent_pb2, environment_pb2, regret_pb2, trajectory_pb2

_ARMS = {PLAIN: trajectory_pb2.ARM_PLAIN, HINTED: trajectory_pb2.ARM_HINTED}
_ARMS_IN = {number: arm for arm, number in _ARMS.items()}
_VOID = frozenset(
    {
        trajectory_pb2.STOP_REASON_ENVIRONMENT_ERROR,
        trajectory_pb2.STOP_REASON_SANDBOX_ERROR,
        trajectory_pb2.STOP_REASON_ENGINE_ERROR,
    }
)


def rollout_request(
    environment: environment_pb2.Environment, planned: Sequence[PlannedPlay], cycle: int
) -> agent_pb2.RolloutRequest:
    """Return the request that has one environment's plays played."""
    return agent_pb2.RolloutRequest(
        environments=[environment],
        plays=[
            agent_pb2.Play(
                trajectory_id=play.trajectory_id, environment=0, arm=_ARMS[play.arm], seed=play.seed, play=play.play
            )
            for play in planned
        ],
        cycle=cycle,
    )


def played_from_wire(trajectory: trajectory_pb2.Trajectory) -> Played[trajectory_pb2.Trajectory]:
    """Return what a trajectory says about its play."""
    return Played(
        arm=_ARMS_IN[trajectory.arm],
        play=trajectory.play,
        episode_return=trajectory.episode_return,
        void=trajectory.stop_reason in _VOID,
        environment_failed=trajectory.stop_reason == trajectory_pb2.STOP_REASON_ENVIRONMENT_ERROR,
        error=trajectory.error,
        trajectory=trajectory,
    )


def evaluation_to_wire(evaluation: Evaluation[trajectory_pb2.Trajectory]) -> regret_pb2.EvaluateResponse:
    """Return an evaluation as a response."""
    return regret_pb2.EvaluateResponse(
        digest=evaluation.digest,
        trajectories=[played.trajectory for played in evaluation.played],
        plain_return=evaluation.plain_return,
        hinted_return=evaluation.hinted_return,
        regret=evaluation.regret.value,
        regret_standard_error=evaluation.regret.standard_error,
        pairs=evaluation.regret.pairs,
        void_episodes=len(evaluation.void),
        quarantine_reason=evaluation.quarantine_reason,
        void_trajectories=[played.trajectory for played in evaluation.void],
    )


def measured_from_wire(message: regret_pb2.EnvironmentScoreInput) -> Measured:
    """Return what is known of an environment."""
    return Measured(
        mean_return=message.mean_return,
        regret=message.regret,
        skill_average=message.skill_average,
        quarantined=message.quarantined,
    )
