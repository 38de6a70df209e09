"""What a loss sees and what it returns: flat tensors with one entry a trained token.

Every loss is written with the gradient in mind. The importance ratio is detached, and the gradient flows through
``through(new)``, whose value is 1 and whose derivative is that of the log-probability, so ``-w * A * through(new)``
has the value ``-w * A`` and the gradient ``-w * A * d log pi``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

# Beyond e**20 a ratio is a broken sample, whatever the loss does with it; the bound keeps exp() finite.
_LOG_RATIO = 20.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Tokens:
    """N trained tokens, all shapes [N].

    ``new``: log-probabilities under the policy that is trained, with gradient; ``old``: the sampler's; ``sequences``: which
    sequence of the micro-batch a token belongs to.
    """

    new: Tensor
    old: Tensor
    advantages: Tensor
    sequences: Tensor

    @property
    def log_ratio(self) -> Tensor:
        """``log(pi / mu)`` without gradient, bounded."""
        return (self.new.detach() - self.old).clamp(-_LOG_RATIO, _LOG_RATIO)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The trust region: see the ``learner`` section of the configuration."""

    clip_low: float
    clip_high: float
    importance_cap: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Terms:
    """``loss`` [N], with gradient; ``clipped`` [N], where the trust region took the gradient away or cut its weight."""

    loss: Tensor
    clipped: Tensor


Loss = Callable[[Tokens, Bounds], Terms]


def through(new: Tensor) -> Tensor:
    """Return ones whose gradient is that of ``new``."""
    return torch.exp(new - new.detach())
