"""Between the memory service's wire and the archive's values."""

from __future__ import annotations

from typing import Any

from spade_rl.memory.records import (
    AdmissionReport,
    Attempt,
    Environment,
    GateVerdict,
    Provenance,
    Record,
    Segment,
    Statistics,
    StoredEnvironment,
    TokenSequence,
    Trajectory,
    TrajectoryHeader,
    Turn,
)
from spade_rl.memory.retrieval import Example
from spade_rl.v1 import designer_pb2, environment_pb2, memory_pb2, trajectory_pb2

_STATISTICS = tuple(Statistics.__dataclass_fields__)
_PROVENANCE = tuple(Provenance.__dataclass_fields__)


def _names(enum: Any, prefix: str) -> dict[int, str]:
    return {number: name.removeprefix(prefix).lower() for name, number in enum.items()}


def _numbers(names: dict[int, str]) -> dict[str, int]:
    return {name: number for number, name in names.items()}


_ARM = _names(trajectory_pb2.Arm, "ARM_")
_STOP = _names(trajectory_pb2.StopReason, "STOP_REASON_")
_KIND = _names(environment_pb2.EnvironmentKind, "ENVIRONMENT_KIND_")
_VERDICT = _names(environment_pb2.Verdict, "VERDICT_")
_ISOLATION = _names(environment_pb2.IsolationLevel, "ISOLATION_LEVEL_")
_ARM_NUMBER, _STOP_NUMBER, _KIND_NUMBER = _numbers(_ARM), _numbers(_STOP), _numbers(_KIND)
_VERDICT_NUMBER, _ISOLATION_NUMBER = _numbers(_VERDICT), _numbers(_ISOLATION)


# --- What arrives ---------------------------------------------------------------------------------


def record_from(request: memory_pb2.RecordRequest) -> Record:
    """Return what a cycle brings."""
    return Record(
        run_id=request.run_id,
        cycle=request.cycle,
        attempts=tuple(_attempt_from(attempt, request.cycle) for attempt in request.attempts),
        environments=tuple(_environment_from(environment) for environment in request.environments),
        trajectories=tuple(_trajectory_from(trajectory) for trajectory in request.trajectories),
        statistics=tuple(Statistics(**{name: getattr(s, name) for name in _STATISTICS}) for s in request.statistics),
    )


def _provenance_from(message: environment_pb2.Provenance) -> Provenance:
    fields = {name: getattr(message, name) for name in _PROVENANCE}
    seeds = {name: tuple(fields[name]) for name in ("positive_seeds", "negative_seeds")}
    return Provenance(**{**fields, **seeds})


def _environment_from(message: environment_pb2.Environment) -> Environment:
    return Environment(
        digest=message.digest,
        source=message.source,
        kind=_KIND[message.kind],
        skill=message.skill,
        hint=message.hint,
        provenance=_provenance_from(message.provenance),
    )


def _sequence_from(message: trajectory_pb2.Sequence) -> TokenSequence:
    return tuple(
        Segment(tuple(s.token_ids), tuple(s.log_probs), s.trained, s.policy_version, s.sampled)
        for s in message.segments
    )


def _attempt_from(message: designer_pb2.DesignAttempt, cycle: int) -> Attempt:
    return Attempt(
        id=message.id,
        cycle=cycle,
        skill=message.skill,
        provenance=_provenance_from(message.provenance),
        source=message.source,
        report=_report_from(message.report) if message.HasField("report") else None,
        normalised_digest=message.normalised_digest,
        sequence=_sequence_from(message.sequence),
        reply=message.reply,
    )


def _report_from(message: environment_pb2.AdmissionReport) -> AdmissionReport:
    return AdmissionReport(
        digest=message.digest,
        admitted=message.admitted,
        verdicts=tuple(GateVerdict(v.gate, _VERDICT[v.verdict], v.message) for v in message.verdicts),
        isolation=_ISOLATION[message.isolation],
        seconds=message.seconds,
        solution=tuple(message.solution),
        observation=message.observation,
    )


def _trajectory_from(message: trajectory_pb2.Trajectory) -> Trajectory:
    sequences = tuple(_sequence_from(sequence) for sequence in message.sequences)
    segments = [segment for sequence in sequences for segment in sequence]
    return Trajectory(
        header=TrajectoryHeader(
            id=message.id,
            environment_digest=message.environment_digest,
            cycle=message.cycle,
            arm=_ARM[message.arm],
            seed=message.seed,
            play=message.play,
            episode_return=message.episode_return,
            stop_reason=_STOP[message.stop_reason],
            turns=len(message.turns),
            sampled_tokens=sum(len(s.token_ids) for s in segments if s.sampled),
            context_tokens=sum(len(s.token_ids) for s in segments if not s.sampled),
            seconds=message.seconds,
            error=message.error,
        ),
        sequences=sequences,
        turns=tuple(Turn(t.observation, t.reply, t.action, t.reward) for t in message.turns),
        last_observation=message.last_observation,
    )


# --- What is answered -----------------------------------------------------------------------------


def statistics_message(statistics: Statistics) -> environment_pb2.EnvironmentStatistics:
    """Return statistics for the wire."""
    return environment_pb2.EnvironmentStatistics(**{name: getattr(statistics, name) for name in _STATISTICS})


def _provenance_message(provenance: Provenance) -> environment_pb2.Provenance:
    return environment_pb2.Provenance(**{name: getattr(provenance, name) for name in _PROVENANCE})


def environment_message(environment: Environment) -> environment_pb2.Environment:
    """Return an environment for the wire."""
    return environment_pb2.Environment(
        digest=environment.digest,
        source=environment.source,
        kind=_KIND_NUMBER[environment.kind],  # type: ignore[arg-type]
        skill=environment.skill,
        hint=environment.hint,
        provenance=_provenance_message(environment.provenance),
    )


def stored_message(stored: StoredEnvironment) -> memory_pb2.ListEnvironmentsResponse:
    """Return an environment with its statistics for the wire."""
    known = stored.statistics
    return memory_pb2.ListEnvironmentsResponse(
        environment=environment_message(stored.environment), statistics=statistics_message(known) if known else None
    )


def seed_message(example: Example) -> memory_pb2.MemorySeed:
    """Return an example for the wire."""
    known = example.statistics
    return memory_pb2.MemorySeed(
        environment=environment_message(example.environment),
        statistics=statistics_message(known) if known else None,
        reason=example.reason,
    )


def _sequence_message(sequence: TokenSequence) -> trajectory_pb2.Sequence:
    return trajectory_pb2.Sequence(
        segments=[
            trajectory_pb2.Segment(
                token_ids=s.token_ids,
                log_probs=s.log_probs,
                trained=s.trained,
                policy_version=s.policy_version,
                sampled=s.sampled,
            )
            for s in sequence
        ]
    )


def attempt_message(attempt: Attempt) -> memory_pb2.ListAttemptsResponse:
    """Return an attempt for the wire."""
    message = designer_pb2.DesignAttempt(
        id=attempt.id,
        skill=attempt.skill,
        provenance=_provenance_message(attempt.provenance),
        source=attempt.source,
        normalised_digest=attempt.normalised_digest,
        sequence=_sequence_message(attempt.sequence),
        reply=attempt.reply,
    )
    report = attempt.report
    if report:
        message.report.CopyFrom(
            environment_pb2.AdmissionReport(
                digest=report.digest,
                admitted=report.admitted,
                verdicts=[
                    environment_pb2.GateVerdict(gate=v.gate, verdict=_VERDICT_NUMBER[v.verdict], message=v.message)  # type: ignore[arg-type]
                    for v in report.verdicts
                ],
                isolation=_ISOLATION_NUMBER[report.isolation],  # type: ignore[arg-type]
                seconds=report.seconds,
                solution=report.solution,
                observation=report.observation,
            )
        )
    return memory_pb2.ListAttemptsResponse(cycle=attempt.cycle, attempt=message)


def trajectory_message(trajectory: Trajectory) -> trajectory_pb2.Trajectory:
    """Return a trajectory for the wire."""
    header = trajectory.header
    return trajectory_pb2.Trajectory(
        id=header.id,
        environment_digest=header.environment_digest,
        cycle=header.cycle,
        arm=_ARM_NUMBER[header.arm],  # type: ignore[arg-type]
        seed=header.seed,
        play=header.play,
        sequences=[_sequence_message(sequence) for sequence in trajectory.sequences],
        turns=[
            trajectory_pb2.Turn(observation=t.observation, reply=t.reply, action=t.action, reward=t.reward)
            for t in trajectory.turns
        ],
        episode_return=header.episode_return,
        stop_reason=_STOP_NUMBER[header.stop_reason],  # type: ignore[arg-type]
        error=header.error,
        seconds=header.seconds,
        last_observation=trajectory.last_observation,
    )
