"""From what was played and designed to what the learner and memory are given: pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from spade_rl.coordinator.state import LiveEnvironment
from spade_rl.v1 import designer_pb2, environment_pb2, learner_pb2, regret_pb2, trajectory_pb2


def returns(evaluation: regret_pb2.EvaluateResponse, *, hinted: bool) -> list[float]:
    """Return the returns of one arm; void episodes have none."""
    arm = trajectory_pb2.ARM_HINTED if hinted else trajectory_pb2.ARM_PLAIN
    return [trajectory.episode_return for trajectory in evaluation.trajectories if trajectory.arm == arm]


def policy_versions(evaluations: Iterable[regret_pb2.EvaluateResponse]) -> set[int]:
    """Return the versions that sampled what the learner will train on."""
    return {
        segment.policy_version
        for evaluation in evaluations
        for trajectory in evaluation.trajectories
        for sequence in trajectory.sequences
        for segment in sequence.segments
        if segment.sampled
    }


def agent_samples(evaluations: Iterable[regret_pb2.EvaluateResponse], cycle: int) -> list[learner_pb2.Sample]:
    """Return a sample for every sequence of every plain trajectory.

    The plays of one environment in one cycle are a group; the sequences of one episode share its return and count
    once. The plays of an environment whose own code failed teach nothing.
    """
    return [
        learner_pb2.Sample(
            sequence=sequence,
            role=learner_pb2.ROLE_AGENT,
            group=f"{evaluation.digest}/{cycle}",
            unit=trajectory.id,
            reward=trajectory.episode_return,
        )
        for evaluation in evaluations
        if not evaluation.quarantine_reason
        for trajectory in evaluation.trajectories
        if trajectory.arm == trajectory_pb2.ARM_PLAIN
        for sequence in trajectory.sequences
    ]


def designer_samples(
    live: Sequence[LiveEnvironment],
    rewards: Mapping[str, float],
    refused: Sequence[designer_pb2.DesignAttempt],
    invalid_reward: float | None,
) -> list[learner_pb2.Sample]:
    """Return a sample for every design of a closed set that has a reward; the designs of a skill are a group.

    Refused attempts take part with ``invalid_reward``, if there is one.
    """
    rewarded = [(one.attempt, rewards[one.digest]) for one in live if one.digest in rewards]
    if invalid_reward is not None:
        rewarded += [(attempt, invalid_reward) for attempt in refused if attempt.sequence.segments]
    return [
        learner_pb2.Sample(
            sequence=attempt.sequence,
            role=learner_pb2.ROLE_DESIGNER,
            group=attempt.skill,
            unit=attempt.id,
            reward=reward,
        )
        for attempt, reward in rewarded
    ]


def statistics(one: LiveEnvironment, reward: float | None, *, closed: bool) -> environment_pb2.EnvironmentStatistics:
    """Return what memory keeps of an environment's results so far."""
    return environment_pb2.EnvironmentStatistics(
        digest=one.digest,
        plain_plays=len(one.plain),
        hinted_plays=len(one.hinted),
        win_rate=one.mean_return,
        hinted_win_rate=one.mean_hinted_return,
        regret=one.regret,
        regret_standard_error=one.regret_standard_error,
        designer_reward=reward or 0.0,
        void_episodes=one.void_episodes,
        quarantined=bool(one.quarantine_reason),
        quarantine_reason=one.quarantine_reason,
        closed=closed,
    )
