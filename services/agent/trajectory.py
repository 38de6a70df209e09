"""What is played and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from spade_rl.kinds import EnvironmentKind


class Arm(StrEnum):
    """The two arms of regret."""

    PLAIN = "plain"
    """Without the hint: trained on."""
    HINTED = "hinted"
    """With the hint: measured, never trained on."""


class StopReason(StrEnum):
    """Why an episode ended."""

    TERMINATED = "terminated"
    """The environment reached a terminal state."""
    TRUNCATED = "truncated"
    """The environment cut the episode short."""
    TURN_LIMIT = "turn_limit"
    """The agent used up its turns."""
    CONTEXT_LIMIT = "context_limit"
    """The conversation no longer fits the policy's context."""
    TOKEN_LIMIT = "token_limit"
    """A reply reached its token limit and held no action."""
    NO_ACTION = "no_action"
    """A reply ended and held no action."""
    ENVIRONMENT_ERROR = "environment_error"
    """The environment's own code failed; the episode is void."""
    SANDBOX_ERROR = "sandbox_error"
    """The sandbox failed; the episode is void, the environment is not to blame."""
    ENGINE_ERROR = "engine_error"
    """The engine, or the agent itself, failed; the episode is void."""


RETRIED = frozenset({StopReason.SANDBOX_ERROR, StopReason.ENGINE_ERROR})


@dataclass(frozen=True, slots=True)
class PlayedEnvironment:
    """What the agent needs of an environment. ``hint`` is empty if there is none."""

    digest: str
    source: str
    hint: str
    kind: EnvironmentKind = EnvironmentKind.GAME


@dataclass(frozen=True, slots=True)
class Play:
    """One episode to play. ``seed`` makes the instance and the policy's draws."""

    trajectory_id: str
    environment: PlayedEnvironment
    arm: Arm
    seed: int
    play: int
    cycle: int

    @property
    def hint(self) -> str | None:
        """The advice that this episode's agent is given."""
        return self.environment.hint if self.arm is Arm.HINTED else None


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of tokens with one origin: sampled by one policy version, or context.

    Sampled segments carry one log-probability a token; context carries none and is never trained on.
    """

    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...] = ()
    policy_version: int = 0
    sampled: bool = False
    trained: bool = False


Sequence = tuple[Segment, ...]
"""One contiguous context of the policy."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange with the environment, as text; ``reward`` lies in [-1, 1]."""

    observation: str
    reply: str
    action: str
    reward: float


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode, played. ``episode_return``: the last reward if the environment terminated, else 0.

    ``error`` says what failed in a void episode, which has no sequences.
    """

    play: Play
    stop_reason: StopReason
    episode_return: float = 0.0
    sequences: tuple[Sequence, ...] = ()
    turns: tuple[Turn, ...] = ()
    error: str = ""
    seconds: float = 0.0
    last_observation: str = ""
