"""What the archive keeps, as values.

Enumerations are the lower-case names of the wire's members without their prefix (``plain``, ``terminated``, ``game``),
so that a database can be read by people.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of tokens of one origin; context has no log-probabilities."""

    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    trained: bool
    policy_version: int
    sampled: bool


TokenSequence = tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange with an environment, as text."""

    observation: str
    reply: str
    action: str
    reward: float


@dataclass(frozen=True, slots=True)
class TrajectoryHeader:
    """The fields of a trajectory that can be searched; ``arm`` is ``plain`` or ``hinted``."""

    id: str
    environment_digest: str
    cycle: int
    arm: str
    seed: int
    play: int
    episode_return: float
    stop_reason: str
    turns: int
    sampled_tokens: int
    context_tokens: int
    seconds: float
    error: str


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode. ``sequences`` is empty when it was read without tokens."""

    header: TrajectoryHeader
    sequences: tuple[TokenSequence, ...]
    turns: tuple[Turn, ...]
    last_observation: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a source comes from; see ``spade_rl.v1.Provenance``."""

    run_id: str
    cycle: int
    document_id: str
    document_excerpt: str
    positive_seeds: tuple[str, ...]
    negative_seeds: tuple[str, ...]
    policy_version: int
    attempts: int


@dataclass(frozen=True, slots=True)
class Environment:
    """A complete environment; ``digest`` is the SHA-256 of its source in hexadecimal."""

    digest: str
    source: str
    kind: str
    skill: str
    hint: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """What one admission gate says: ``passed``, ``failed`` or ``skipped``."""

    gate: str
    verdict: str
    message: str


@dataclass(frozen=True, slots=True)
class AdmissionReport:
    """The verdicts of all gates on one source."""

    digest: str
    admitted: bool
    verdicts: tuple[GateVerdict, ...]
    isolation: str
    seconds: float
    solution: tuple[str, ...]
    observation: str

    def refusal(self) -> str:
        """Return the message of the gate that refused the source; empty if none did."""
        failed = (verdict for verdict in self.verdicts if verdict.verdict == "failed")
        return "" if self.admitted else next((v.message or v.gate for v in failed), "refused")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One source that the designer wrote, admitted or not. ``cycle`` is the one it was recorded in."""

    id: str
    cycle: int
    skill: str
    provenance: Provenance
    source: str
    report: AdmissionReport | None
    normalised_digest: str
    sequence: TokenSequence
    reply: str


@dataclass(frozen=True, slots=True)
class Statistics:
    """The results of an environment so far; see ``spade_rl.v1.EnvironmentStatistics``."""

    digest: str
    plain_plays: int
    hinted_plays: int
    win_rate: float
    hinted_win_rate: float
    regret: float
    regret_standard_error: float
    designer_reward: float
    void_episodes: int
    quarantined: bool
    quarantine_reason: str
    closed: bool


@dataclass(frozen=True, slots=True)
class StoredEnvironment:
    """An environment with the cycle it was recorded in and its newest statistics, if it was played."""

    environment: Environment
    cycle: int
    statistics: Statistics | None


@dataclass(frozen=True, slots=True)
class RefusedSource:
    """A source that a gate refused, with the gate's message."""

    attempt_id: str
    cycle: int
    environment: Environment
    reason: str


@dataclass(frozen=True, slots=True)
class Record:
    """What one cycle of a run brings to the archive."""

    run_id: str
    cycle: int
    attempts: tuple[Attempt, ...] = ()
    environments: tuple[Environment, ...] = ()
    trajectories: tuple[Trajectory, ...] = ()
    statistics: tuple[Statistics, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """How much of a record was not in the archive before."""

    attempts: int
    environments: int
    trajectories: int
