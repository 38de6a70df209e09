"""What the learner learns from: token sequences, who wrote them, and what they earned.

A sample is one contiguous context of the policy. Samples of one unit (an episode, a designer's attempt) share their
reward; units of one group are compared with each other. Only ``trained`` tokens reach the loss: what the other
positions hold, NaN included, has no effect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from spade_rl.errors import LearnerError

# A sampler in bfloat16 may report the log-probability of a certain token as a little above 0.
_ABOVE_ZERO = 1e-2


class Role(StrEnum):
    """Who wrote a sequence."""

    AGENT = "agent"
    DESIGNER = "designer"

    @property
    def row(self) -> int:
        """Row of this role in every table that has one row a role."""
        return ROLES.index(self)


ROLES: tuple[Role, ...] = (Role.AGENT, Role.DESIGNER)


@dataclass(frozen=True, eq=False, kw_only=True)
class Sample:
    """One sequence of T tokens and what its unit earned.

    ``token_ids`` [T]; ``trained`` [T] says which tokens the loss counts; ``log_probs`` [T] are the sampler's, in nats at
    the sampling temperature, and mean something only where ``trained``; ``policy_version`` is the oldest version
    that sampled a trained token.
    """

    role: Role
    group: str
    unit: str
    reward: float
    token_ids: NDArray[np.int64]
    trained: NDArray[np.bool_]
    log_probs: NDArray[np.float32]
    policy_version: int = 0

    @property
    def name(self) -> str:
        """How messages call this sample."""
        return f"the {self.role} sample of unit {self.unit!r} in group {self.group!r}"

    @property
    def trained_tokens(self) -> int:
        """Number of tokens that the loss counts."""
        return int(np.count_nonzero(self.trained))


def check_samples(samples: Sequence[Sample], *, vocabulary: int) -> None:
    """Raise LearnerError, naming the sample, unless every sample can be trained on."""
    for sample in samples:
        fault = _fault(sample, vocabulary)
        if fault is not None:
            raise LearnerError(f"{sample.name} {fault}; nothing was trained, send the update again without it")


def _fault(sample: Sample, vocabulary: int) -> str | None:
    if not math.isfinite(sample.reward):
        return f"has the reward {sample.reward}"
    if not sample.trained.any():
        return None
    ids = sample.token_ids
    if int(ids.min()) < 0 or int(ids.max()) >= vocabulary:
        return f"has token ids outside the model's vocabulary of {vocabulary}"
    if sample.trained[0]:
        return "trains on its first token, which no context precedes"
    log_probs = sample.log_probs[sample.trained]
    if not np.isfinite(log_probs).all():
        return "has a log-probability that is not finite at a trained token"
    if float(log_probs.max()) > _ABOVE_ZERO:
        return f"has the log-probability {float(log_probs.max()):g}, which no probability has"
    return None
